// SPDX-License-Identifier: MIT OR Apache-2.0
// A classifier with three layers: 784 features, two hidden layers with gelu, ten probabilities.
// A layer is x @ w + b; broadcast_to repeats the bias for each row, since nothing broadcasts by itself.

func.func @main(%x: tensor<64x784xf32> {fuel.name = "x"}) -> tensor<64x10xf32> {
  // Layer 1: 784 to 512.
  %w1 = fuel.weight "mlp.1.kernel" : tensor<784x512xf32>
  %b1 = fuel.weight "mlp.1.bias" : tensor<512xf32>
  %product1 = fuel.matmul %x, %w1 : tensor<64x784xf32>, tensor<784x512xf32> -> tensor<64x512xf32>
  %bias1 = fuel.broadcast_to %b1 : tensor<512xf32> -> tensor<64x512xf32>
  %sum1 = fuel.add %product1, %bias1 : tensor<64x512xf32>
  %hidden1 = fuel.gelu %sum1 : tensor<64x512xf32>

  // Layer 2: 512 to 256.
  %w2 = fuel.weight "mlp.2.kernel" : tensor<512x256xf32>
  %b2 = fuel.weight "mlp.2.bias" : tensor<256xf32>
  %product2 = fuel.matmul %hidden1, %w2 : tensor<64x512xf32>, tensor<512x256xf32> -> tensor<64x256xf32>
  %bias2 = fuel.broadcast_to %b2 : tensor<256xf32> -> tensor<64x256xf32>
  %sum2 = fuel.add %product2, %bias2 : tensor<64x256xf32>
  %hidden2 = fuel.gelu %sum2 : tensor<64x256xf32>

  // Layer 3: 256 to 10, as probabilities.
  %w3 = fuel.weight "mlp.3.kernel" : tensor<256x10xf32>
  %b3 = fuel.weight "mlp.3.bias" : tensor<10xf32>
  %product3 = fuel.matmul %hidden2, %w3 : tensor<64x256xf32>, tensor<256x10xf32> -> tensor<64x10xf32>
  %bias3 = fuel.broadcast_to %b3 : tensor<10xf32> -> tensor<64x10xf32>
  %logits = fuel.add %product3, %bias3 : tensor<64x10xf32>
  %probabilities = fuel.softmax_last_dim %logits : tensor<64x10xf32>
  func.return %probabilities : tensor<64x10xf32>
}
