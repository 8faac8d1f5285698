// SPDX-License-Identifier: MIT OR Apache-2.0
// x * 2 + 1 on 8 floats: next to no work, so what is measured is the call.
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %twice = fuel.mul_scalar %x {scalar = 2.0 : f64} : tensor<8xf32>
  %y = fuel.add_scalar %twice {scalar = 1.0 : f64} : tensor<8xf32>
  func.return %y : tensor<8xf32>
}
