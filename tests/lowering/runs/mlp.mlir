// SPDX-License-Identifier: MIT OR Apache-2.0
func.func @main(%x_0: tensor<5x16xf32>) -> (tensor<5x8xf32>, tensor<5xui32>) {
  %p_0, %best_0 = fuel.run on #fuel.target<cpu, "numpy"> (%x_1 = %x_0 : tensor<5x16xf32>) -> (tensor<5x8xf32>, tensor<5xui32>) {
    %w_1 = fuel.weight "mlp.w" : tensor<8x16xf32>
    %b_1 = fuel.weight "mlp.b" : tensor<8xf32>
    %h_1 = fuel.kernel library "matmul" (%x_2 = %x_1 : tensor<5x16xf32>, %w_2 = %w_1 : tensor<8x16xf32>) -> tensor<5x8xf32> {
      %t_2 = fuel.transpose %w_2 : tensor<8x16xf32> -> tensor<16x8xf32>
      %h_2 = fuel.matmul %x_2, %t_2 : tensor<5x16xf32>, tensor<16x8xf32> -> tensor<5x8xf32>
      fuel.yield %h_2 : tensor<5x8xf32>
    }
    %a_1 = fuel.kernel pointwise "add_relu" (%h_2 = %h_1 : tensor<5x8xf32>, %b_2 = %b_1 : tensor<8xf32>) -> tensor<5x8xf32> {
      %bias_2 = fuel.broadcast_to %b_2 : tensor<8xf32> -> tensor<5x8xf32>
      %t0 = fuel.add %h_2, %bias_2 : tensor<5x8xf32>
      %a_2 = fuel.relu %t0 : tensor<5x8xf32>
      fuel.yield %a_2 : tensor<5x8xf32>
    }
    %p_1 = fuel.kernel library "softmax_last_dim" (%a_2 = %a_1 : tensor<5x8xf32>) -> tensor<5x8xf32> {
      %p_2 = fuel.softmax_last_dim %a_2 : tensor<5x8xf32>
      fuel.yield %p_2 : tensor<5x8xf32>
    }
    %best_1 = fuel.kernel library "argmax_dim" (%p_2 = %p_1 : tensor<5x8xf32>) -> tensor<5xui32> {
      %best_2 = fuel.argmax_dim %p_2 {dim = 1 : i64} : tensor<5x8xf32> -> tensor<5xui32>
      fuel.yield %best_2 : tensor<5xui32>
    }
    fuel.yield %p_1, %best_1 : tensor<5x8xf32>, tensor<5xui32>
  }
  func.return %p_0, %best_0 : tensor<5x8xf32>, tensor<5xui32>
}
