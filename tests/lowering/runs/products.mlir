// SPDX-License-Identifier: MIT OR Apache-2.0
builtin.module {
  func.func @main(%x: tensor<260x32xf32>, %w: tensor<32x260xf32>, %b: tensor<260xf32>, %k: tensor<2x130x8xbf16>) -> (tensor<260x260xf32>, tensor<2x130x130xf32>) {
    %r, %h = fuel.run on #fuel.target<cpu, "numpy"> (%x_1 = %x : tensor<260x32xf32>, %w_1 = %w : tensor<32x260xf32>, %b_1 = %b : tensor<260xf32>, %k_1 = %k : tensor<2x130x8xbf16>) -> (tensor<260x260xf32>, tensor<2x130x130xf32>) {
      %r_1 = fuel.kernel matmul "matmul_add_silu_add"(%x_2 = %x_1 : tensor<260x32xf32>, %w_2 = %w_1 : tensor<32x260xf32>, %b_2 = %b_1 : tensor<260xf32>) -> tensor<260x260xf32> {
        %bb = fuel.broadcast_to %b_2 : tensor<260xf32> -> tensor<260x260xf32>
        %m = fuel.matmul %x_2, %w_2 : tensor<260x32xf32>, tensor<32x260xf32> -> tensor<260x260xf32>
        %a = fuel.add %m, %bb : tensor<260x260xf32>
        %s = fuel.silu %a : tensor<260x260xf32>
        %r_2 = fuel.add %s, %a : tensor<260x260xf32>
        fuel.yield %r_2 : tensor<260x260xf32>
      }
      %h_1 = fuel.kernel matmul "matmul_cast_tanh"(%k_2 = %k_1 : tensor<2x130x8xbf16>) -> tensor<2x130x130xf32> {
        %t = fuel.transpose %k_2 : tensor<2x130x8xbf16> -> tensor<2x8x130xbf16>
        %n = fuel.matmul %k_2, %t : tensor<2x130x8xbf16>, tensor<2x8x130xbf16> -> tensor<2x130x130xbf16>
        %c = fuel.cast %n : tensor<2x130x130xbf16> -> tensor<2x130x130xf32>
        %h_2 = fuel.tanh %c : tensor<2x130x130xf32>
        fuel.yield %h_2 : tensor<2x130x130xf32>
      }
      fuel.yield %r_1, %h_1 : tensor<260x260xf32>, tensor<2x130x130xf32>
    }
    func.return %r, %h : tensor<260x260xf32>, tensor<2x130x130xf32>
  }
}
