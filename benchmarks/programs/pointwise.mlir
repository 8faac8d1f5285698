// SPDX-License-Identifier: MIT OR Apache-2.0
// Eight pointwise ops on four million floats, one of them exp: a gated activation and a residual.
//   h = 0.5 x + y;   z = h / (1 + exp(-h)) * y + x
func.func @main(%x: tensor<4194304xf32>, %y: tensor<4194304xf32>) -> tensor<4194304xf32> {
  %half = fuel.mul_scalar %x {scalar = 0.5 : f64} : tensor<4194304xf32>
  %h = fuel.add %half, %y : tensor<4194304xf32>
  %minus = fuel.neg %h : tensor<4194304xf32>
  %e = fuel.exp %minus : tensor<4194304xf32>
  %one_more = fuel.add_scalar %e {scalar = 1.0 : f64} : tensor<4194304xf32>
  %gate = fuel.div %h, %one_more : tensor<4194304xf32>
  %gated = fuel.mul %gate, %y : tensor<4194304xf32>
  %z = fuel.add %gated, %x : tensor<4194304xf32>
  func.return %z : tensor<4194304xf32>
}
