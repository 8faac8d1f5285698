// SPDX-License-Identifier: MIT OR Apache-2.0
// Three layers, 784 to 1024 to 1024 to 10, for a batch of 128. gelu in its tanh form, which
// NumPy can compute too.
func.func @main(%x: tensor<128x784xf32>) -> tensor<128x10xf32> {
  %w1 = fuel.weight "w1" : tensor<784x1024xf32>
  %b1 = fuel.weight "b1" : tensor<1024xf32>
  %p1 = fuel.matmul %x, %w1 : tensor<128x784xf32>, tensor<784x1024xf32> -> tensor<128x1024xf32>
  %c1 = fuel.broadcast_to %b1 : tensor<1024xf32> -> tensor<128x1024xf32>
  %s1 = fuel.add %p1, %c1 : tensor<128x1024xf32>
  %h1 = fuel.gelu_tanh %s1 : tensor<128x1024xf32>
  %w2 = fuel.weight "w2" : tensor<1024x1024xf32>
  %b2 = fuel.weight "b2" : tensor<1024xf32>
  %p2 = fuel.matmul %h1, %w2 : tensor<128x1024xf32>, tensor<1024x1024xf32> -> tensor<128x1024xf32>
  %c2 = fuel.broadcast_to %b2 : tensor<1024xf32> -> tensor<128x1024xf32>
  %s2 = fuel.add %p2, %c2 : tensor<128x1024xf32>
  %h2 = fuel.gelu_tanh %s2 : tensor<128x1024xf32>
  %w3 = fuel.weight "w3" : tensor<1024x10xf32>
  %b3 = fuel.weight "b3" : tensor<10xf32>
  %p3 = fuel.matmul %h2, %w3 : tensor<128x1024xf32>, tensor<1024x10xf32> -> tensor<128x10xf32>
  %c3 = fuel.broadcast_to %b3 : tensor<10xf32> -> tensor<128x10xf32>
  %s3 = fuel.add %p3, %c3 : tensor<128x10xf32>
  %y = fuel.softmax_last_dim %s3 : tensor<128x10xf32>
  func.return %y : tensor<128x10xf32>
}
