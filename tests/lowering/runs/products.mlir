// SPDX-License-Identifier: MIT OR Apache-2.0
builtin.module {
  func.func @main(%x: tensor<520x32xf32>, %w: tensor<32x520xf32>, %b: tensor<520xf32>, %k: tensor<2x190x8xbf16>) -> (tensor<520x520xf32>, tensor<2x190x190xf32>) {
    %r, %h = fuel.run on #fuel.target<cpu, "numpy"> (%x_1 = %x : tensor<520x32xf32>, %w_1 = %w : tensor<32x520xf32>, %b_1 = %b : tensor<520xf32>, %k_1 = %k : tensor<2x190x8xbf16>) -> (tensor<520x520xf32>, tensor<2x190x190xf32>) {
      %r_1 = fuel.kernel matmul "matmul_add_silu_add"(%x_2 = %x_1 : tensor<520x32xf32>, %w_2 = %w_1 : tensor<32x520xf32>, %b_2 = %b_1 : tensor<520xf32>) -> tensor<520x520xf32> {
        %bb = fuel.broadcast_to %b_2 : tensor<520xf32> -> tensor<520x520xf32>
        %m = fuel.matmul %x_2, %w_2 : tensor<520x32xf32>, tensor<32x520xf32> -> tensor<520x520xf32>
        %a = fuel.add %m, %bb : tensor<520x520xf32>
        %s = fuel.silu %a : tensor<520x520xf32>
        %r_2 = fuel.add %s, %a : tensor<520x520xf32>
        fuel.yield %r_2 : tensor<520x520xf32>
      }
      %h_1 = fuel.kernel matmul "matmul_cast_tanh"(%k_2 = %k_1 : tensor<2x190x8xbf16>) -> tensor<2x190x190xf32> {
        %t = fuel.transpose %k_2 : tensor<2x190x8xbf16> -> tensor<2x8x190xbf16>
        %n = fuel.matmul %k_2, %t : tensor<2x190x8xbf16>, tensor<2x8x190xbf16> -> tensor<2x190x190xbf16>
        %c = fuel.cast %n : tensor<2x190x190xbf16> -> tensor<2x190x190xf32>
        %h_2 = fuel.tanh %c : tensor<2x190x190xf32>
        fuel.yield %h_2 : tensor<2x190x190xf32>
      }
      fuel.yield %r_1, %h_1 : tensor<520x520xf32>, tensor<2x190x190xf32>
    }
    func.return %r, %h : tensor<520x520xf32>, tensor<2x190x190xf32>
  }
}
