// SPDX-License-Identifier: MIT OR Apache-2.0
builtin.module {
  func.func @main(%x: tensor<900x200xbf16>, %g: tensor<200xf32>, %s: tensor<900xf32>) -> (tensor<900x200xf32>, tensor<900xf32>, tensor<900xui32>) {
    %y, %t, %i = fuel.run on #fuel.target<cpu, "numpy"> (%x_1 = %x : tensor<900x200xbf16>, %g_1 = %g : tensor<200xf32>, %s_1 = %s : tensor<900xf32>) -> (tensor<900x200xf32>, tensor<900xf32>, tensor<900xui32>) {
      %y_1, %t_1, %i_1 = fuel.kernel reduction "cast_mul_scalar_softmax_last_dim_mul_and_3_more"(%x_2 = %x_1 : tensor<900x200xbf16>, %g_2 = %g_1 : tensor<200xf32>, %s_2 = %s_1 : tensor<900xf32>) -> (tensor<900x200xf32>, tensor<900xf32>, tensor<900xui32>) {
        %b = fuel.broadcast_to %g_2 : tensor<200xf32> -> tensor<900x200xf32>
        %w = fuel.cast %x_2 : tensor<900x200xbf16> -> tensor<900x200xf32>
        %d = fuel.mul_scalar %w {scalar = 2.000000e+00 : f64} : tensor<900x200xf32>
        %p = fuel.softmax_last_dim %d : tensor<900x200xf32>
        %y_2 = fuel.mul %p, %b : tensor<900x200xf32>
        %m = fuel.mean_dim %y_2 {dim = 1 : i64} : tensor<900x200xf32> -> tensor<900xf32>
        %t_2 = fuel.add %m, %s_2 : tensor<900xf32>
        %i_2 = fuel.argmax_dim %y_2 {dim = 1 : i64} : tensor<900x200xf32> -> tensor<900xui32>
        fuel.yield %y_2, %t_2, %i_2 : tensor<900x200xf32>, tensor<900xf32>, tensor<900xui32>
      }
      fuel.yield %y_1, %t_1, %i_1 : tensor<900x200xf32>, tensor<900xf32>, tensor<900xui32>
    }
    func.return %y, %t, %i : tensor<900x200xf32>, tensor<900xf32>, tensor<900xui32>
  }
}
