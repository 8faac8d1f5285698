// SPDX-License-Identifier: MIT OR Apache-2.0
func.func @main(%x_0: tensor<300x700xbf16>, %mask_0: tensor<300x700xi1>, %k_0: tensor<1xbf16>) -> (tensor<300x700xbf16>, tensor<300x700xf32>) {
  %y_0, %wide_0 = fuel.run on #fuel.target<cpu, "numpy"> (%x_1 = %x_0 : tensor<300x700xbf16>, %mask_1 = %mask_0 : tensor<300x700xi1>, %k_1 = %k_0 : tensor<1xbf16>) -> (tensor<300x700xbf16>, tensor<300x700xf32>) {
    %y_1, %wide_1 = fuel.kernel pointwise "sigmoid_mul_where_cast_gelu" (%x_2 = %x_1 : tensor<300x700xbf16>, %mask_2 = %mask_1 : tensor<300x700xi1>, %k_2 = %k_1 : tensor<1xbf16>) -> (tensor<300x700xbf16>, tensor<300x700xf32>) {
      %kk_2 = fuel.broadcast_to %k_2 : tensor<1xbf16> -> tensor<300x700xbf16>
      %zero_2 = fuel.const 0.0 : bf16 -> tensor<300x700xbf16>
      %t0 = fuel.sigmoid %x_2 : tensor<300x700xbf16>
      %t1 = fuel.mul %t0, %kk_2 : tensor<300x700xbf16>
      %y_2 = fuel.where %mask_2, %t1, %zero_2 : tensor<300x700xi1>, tensor<300x700xbf16>
      %t2 = fuel.cast %y_2 : tensor<300x700xbf16> -> tensor<300x700xf32>
      %wide_2 = fuel.gelu %t2 : tensor<300x700xf32>
      fuel.yield %y_2, %wide_2 : tensor<300x700xbf16>, tensor<300x700xf32>
    }
    fuel.yield %y_1, %wide_1 : tensor<300x700xbf16>, tensor<300x700xf32>
  }
  func.return %y_0, %wide_0 : tensor<300x700xbf16>, tensor<300x700xf32>
}
