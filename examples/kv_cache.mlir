// SPDX-License-Identifier: MIT OR Apache-2.0
// One step of decoding with a cache of keys and values: 4 heads of 16, room for 256 tokens.
// The state is the cache and how many tokens it holds; each call appends one token, in place, and
// attends to all so far.

func.func @main(%x: tensor<1x64xf32> {fuel.name = "x"},
                %keys: tensor<4x256x16xf32> {fuel.name = "keys", fuel.donated},
                %values: tensor<4x256x16xf32> {fuel.name = "values", fuel.donated},
                %count: tensor<ui32> {fuel.name = "count", fuel.donated})
    -> (tensor<1x64xf32> {fuel.name = "y"},
        tensor<4x256x16xf32> {fuel.aliases = 1 : i64},
        tensor<4x256x16xf32> {fuel.aliases = 2 : i64},
        tensor<ui32> {fuel.aliases = 3 : i64}) {
  %Wq = fuel.weight "attention.query.kernel" : tensor<64x64xf32>
  %Wk = fuel.weight "attention.key.kernel" : tensor<64x64xf32>
  %Wv = fuel.weight "attention.value.kernel" : tensor<64x64xf32>
  %Wo = fuel.weight "attention.out.kernel" : tensor<64x64xf32>

  // One row of each head.
  %q0 = fuel.matmul %x, %Wq : tensor<1x64xf32>, tensor<64x64xf32> -> tensor<1x64xf32>
  %k0 = fuel.matmul %x, %Wk : tensor<1x64xf32>, tensor<64x64xf32> -> tensor<1x64xf32>
  %v0 = fuel.matmul %x, %Wv : tensor<1x64xf32>, tensor<64x64xf32> -> tensor<1x64xf32>
  %q1 = fuel.mul_scalar %q0 {scalar = 0.25 : f64} : tensor<1x64xf32>
  %q = fuel.reshape %q1 : tensor<1x64xf32> -> tensor<4x1x16xf32>
  %k = fuel.reshape %k0 : tensor<1x64xf32> -> tensor<4x1x16xf32>
  %v = fuel.reshape %v0 : tensor<1x64xf32> -> tensor<4x1x16xf32>

  // Nothing reads the old cache after this: the rows are written where it lies.
  %keys1 = fuel.write_slice_doff %keys, %k, %count {starts = array<i64: 0, 0, 0>, axis = 1 : i64}
    : tensor<4x256x16xf32>, tensor<4x1x16xf32>, tensor<ui32>
  %values1 = fuel.write_slice_doff %values, %v, %count {starts = array<i64: 0, 0, 0>, axis = 1 : i64}
    : tensor<4x256x16xf32>, tensor<4x1x16xf32>, tensor<ui32>
  %one = fuel.const 1 : ui32 -> tensor<ui32>
  %count1 = fuel.add %count, %one : tensor<ui32>

  // Softmax over the tokens there are.
  %keys_t = fuel.transpose %keys1 : tensor<4x256x16xf32> -> tensor<4x16x256xf32>
  %scores = fuel.matmul %q, %keys_t
    : tensor<4x1x16xf32>, tensor<4x16x256xf32> -> tensor<4x1x256xf32>
  %place = fuel.iota : tensor<256xf32>
  %held = fuel.cast %count1 : tensor<ui32> -> tensor<f32>
  %held_b = fuel.broadcast_to %held : tensor<f32> -> tensor<256xf32>
  %empty = fuel.ge %place, %held_b : tensor<256xf32> -> tensor<256xi1>
  %empty_b = fuel.broadcast_to %empty : tensor<256xi1> -> tensor<4x1x256xi1>
  %masked = fuel.masked_fill %scores, %empty_b {value = 0xFF800000 : f32}
    : tensor<4x1x256xf32>, tensor<4x1x256xi1>
  %weights = fuel.softmax_last_dim %masked : tensor<4x1x256xf32>
  %mixed = fuel.matmul %weights, %values1
    : tensor<4x1x256xf32>, tensor<4x256x16xf32> -> tensor<4x1x16xf32>
  %row = fuel.reshape %mixed : tensor<4x1x16xf32> -> tensor<1x64xf32>
  %y = fuel.matmul %row, %Wo : tensor<1x64xf32>, tensor<64x64xf32> -> tensor<1x64xf32>
  func.return %y, %keys1, %values1, %count1
    : tensor<1x64xf32>, tensor<4x256x16xf32>, tensor<4x256x16xf32>, tensor<ui32>
}
