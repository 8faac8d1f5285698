// SPDX-License-Identifier: MIT OR Apache-2.0
func.func @main(%q_0: tensor<1x4x5x8xf32>, %k_0: tensor<1x2x5x8xf32>, %v_0: tensor<1x2x5x8xf32>, %rows_0: tensor<3xui32>) -> tensor<1x4x3x8xf32> {
  %o_0 = fuel.run on #fuel.target<cpu, "numpy"> (%q_1 = %q_0 : tensor<1x4x5x8xf32>, %k_1 = %k_0 : tensor<1x2x5x8xf32>, %v_1 = %v_0 : tensor<1x2x5x8xf32>, %rows_1 = %rows_0 : tensor<3xui32>) -> tensor<1x4x3x8xf32> {
    %mask_1 = fuel.const #fuel.bytes<"0x0001010101000001010100000001010000000001000000000000"> -> tensor<26xi1>
    %s_1 = fuel.kernel library "matmul" (%q_2 = %q_1 : tensor<1x4x5x8xf32>, %k_2 = %k_1 : tensor<1x2x5x8xf32>) -> tensor<1x4x5x5xf32> {
      %t_2 = fuel.transpose %k_2 : tensor<1x2x5x8xf32> -> tensor<1x2x8x5xf32>
      %s_2 = fuel.matmul %q_2, %t_2 : tensor<1x4x5x8xf32>, tensor<1x2x8x5xf32> -> tensor<1x4x5x5xf32>
      fuel.yield %s_2 : tensor<1x4x5x5xf32>
    }
    %m_1 = fuel.kernel pointwise "mul_scalar_masked_fill" (%s_2 = %s_1 : tensor<1x4x5x5xf32>, %mask_2 = %mask_1 : tensor<26xi1>) -> tensor<1x4x5x5xf32> {
      %t0 = fuel.slice %mask_2 {dim = 0 : i64, start = 0 : i64, length = 25 : i64} : tensor<26xi1> -> tensor<25xi1>
      %t1 = fuel.reshape %t0 : tensor<25xi1> -> tensor<5x5xi1>
      %t2 = fuel.broadcast_to %t1 : tensor<5x5xi1> -> tensor<1x4x5x5xi1>
      %t3 = fuel.mul_scalar %s_2 {scalar = 0.35355339059327373 : f64} : tensor<1x4x5x5xf32>
      %m_2 = fuel.masked_fill %t3, %t2 {value = 0xFF800000 : f32} : tensor<1x4x5x5xf32>, tensor<1x4x5x5xi1>
      fuel.yield %m_2 : tensor<1x4x5x5xf32>
    }
    %p_1 = fuel.kernel library "softmax_last_dim" (%m_2 = %m_1 : tensor<1x4x5x5xf32>) -> tensor<1x4x5x5xf32> {
      %p_2 = fuel.softmax_last_dim %m_2 : tensor<1x4x5x5xf32>
      fuel.yield %p_2 : tensor<1x4x5x5xf32>
    }
    %a_1 = fuel.kernel library "matmul" (%p_2 = %p_1 : tensor<1x4x5x5xf32>, %v_2 = %v_1 : tensor<1x2x5x8xf32>) -> tensor<1x4x5x8xf32> {
      %a_2 = fuel.matmul %p_2, %v_2 : tensor<1x4x5x5xf32>, tensor<1x2x5x8xf32> -> tensor<1x4x5x8xf32>
      fuel.yield %a_2 : tensor<1x4x5x8xf32>
    }
    %o_1 = fuel.kernel library "index_select" (%a_2 = %a_1 : tensor<1x4x5x8xf32>, %rows_2 = %rows_1 : tensor<3xui32>) -> tensor<1x4x3x8xf32> {
      %o_2 = fuel.index_select %a_2, %rows_2 {dim = 2 : i64} : tensor<1x4x5x8xf32>, tensor<3xui32> -> tensor<1x4x3x8xf32>
      fuel.yield %o_2 : tensor<1x4x3x8xf32>
    }
    fuel.yield %o_1 : tensor<1x4x3x8xf32>
  }
  func.return %o_0 : tensor<1x4x3x8xf32>
}
