// SPDX-License-Identifier: MIT OR Apache-2.0
func.func @main(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
  %y = fuel.softmax_last_dim %x : tensor<4096x1024xf32>
  func.return %y : tensor<4096x1024xf32>
}
