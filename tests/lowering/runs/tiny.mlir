// SPDX-License-Identifier: MIT OR Apache-2.0
func.func @main(%x_0: tensor<8xf32>) -> tensor<8xf32> {
  %y_0 = fuel.run on #fuel.target<cpu, "numpy"> (%x_1 = %x_0 : tensor<8xf32>) -> tensor<8xf32> {
    %y_1 = fuel.kernel pointwise "mul_scalar_add_scalar" (%x_2 = %x_1 : tensor<8xf32>) -> tensor<8xf32> {
      %t0 = fuel.mul_scalar %x_2 {scalar = 2.0 : f64} : tensor<8xf32>
      %y_2 = fuel.add_scalar %t0 {scalar = 1.0 : f64} : tensor<8xf32>
      fuel.yield %y_2 : tensor<8xf32>
    }
    fuel.yield %y_1 : tensor<8xf32>
  }
  func.return %y_0 : tensor<8xf32>
}
