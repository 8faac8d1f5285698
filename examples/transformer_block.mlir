// SPDX-License-Identifier: MIT OR Apache-2.0
// One block of a decoder: 64 positions of width 256.
//   y = x + attention(rms_norm(x));  out = y + feed_forward(rms_norm(y))
// Eight query heads of width 32 share two key and value heads: fuel.matmul lets query head h meet
// key head h / 4. Positions enter by rotary embedding, in its half-split form.

func.func @main(%x: tensor<64x256xf32> {fuel.name = "x"}) -> tensor<64x256xf32> {
  // RMS norm with a gain.
  %gain1 = fuel.weight "attention.gain" : tensor<256xf32>
  %unit1 = fuel.rms_norm_last_dim %x {eps = 1.0e-06 : f64} : tensor<64x256xf32>
  %scale1 = fuel.broadcast_to %gain1 : tensor<256xf32> -> tensor<64x256xf32>
  %normed1 = fuel.mul %unit1, %scale1 : tensor<64x256xf32>

  // Queries, keys and values, with the heads in front.
  %wq = fuel.weight "attention.query.kernel" : tensor<256x256xf32>
  %q_flat = fuel.matmul %normed1, %wq : tensor<64x256xf32>, tensor<256x256xf32> -> tensor<64x256xf32>
  %q_split = fuel.reshape %q_flat : tensor<64x256xf32> -> tensor<64x8x32xf32>
  %q = fuel.permute %q_split {axes = array<i64: 1, 0, 2>} : tensor<64x8x32xf32> -> tensor<8x64x32xf32>
  %wk = fuel.weight "attention.key.kernel" : tensor<256x64xf32>
  %k_flat = fuel.matmul %normed1, %wk : tensor<64x256xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %k_split = fuel.reshape %k_flat : tensor<64x64xf32> -> tensor<64x2x32xf32>
  %k = fuel.permute %k_split {axes = array<i64: 1, 0, 2>} : tensor<64x2x32xf32> -> tensor<2x64x32xf32>
  %wv = fuel.weight "attention.value.kernel" : tensor<256x64xf32>
  %v_flat = fuel.matmul %normed1, %wv : tensor<64x256xf32>, tensor<256x64xf32> -> tensor<64x64xf32>
  %v_split = fuel.reshape %v_flat : tensor<64x64xf32> -> tensor<64x2x32xf32>
  %v = fuel.permute %v_split {axes = array<i64: 1, 0, 2>} : tensor<64x2x32xf32> -> tensor<2x64x32xf32>

  // Rotary embedding of the queries: q * cos + (-q[16:], q[:16]) * sin.
  %cos = fuel.weight "rotary.cos" : tensor<64x32xf32>
  %sin = fuel.weight "rotary.sin" : tensor<64x32xf32>
  %q_cos = fuel.broadcast_to %cos : tensor<64x32xf32> -> tensor<8x64x32xf32>
  %q_sin = fuel.broadcast_to %sin : tensor<64x32xf32> -> tensor<8x64x32xf32>
  %q_low = fuel.slice %q {dim = 2 : i64, start = 0 : i64, length = 16 : i64} : tensor<8x64x32xf32> -> tensor<8x64x16xf32>
  %q_high = fuel.slice %q {dim = 2 : i64, start = 16 : i64, length = 16 : i64} : tensor<8x64x32xf32> -> tensor<8x64x16xf32>
  %q_minus = fuel.neg %q_high : tensor<8x64x16xf32>
  %q_turned = fuel.concat %q_minus, %q_low {dim = 2 : i64} : tensor<8x64x16xf32>, tensor<8x64x16xf32> -> tensor<8x64x32xf32>
  %q_even = fuel.mul %q, %q_cos : tensor<8x64x32xf32>
  %q_odd = fuel.mul %q_turned, %q_sin : tensor<8x64x32xf32>
  %q_rotated = fuel.add %q_even, %q_odd : tensor<8x64x32xf32>

  // The same of the keys.
  %k_cos = fuel.broadcast_to %cos : tensor<64x32xf32> -> tensor<2x64x32xf32>
  %k_sin = fuel.broadcast_to %sin : tensor<64x32xf32> -> tensor<2x64x32xf32>
  %k_low = fuel.slice %k {dim = 2 : i64, start = 0 : i64, length = 16 : i64} : tensor<2x64x32xf32> -> tensor<2x64x16xf32>
  %k_high = fuel.slice %k {dim = 2 : i64, start = 16 : i64, length = 16 : i64} : tensor<2x64x32xf32> -> tensor<2x64x16xf32>
  %k_minus = fuel.neg %k_high : tensor<2x64x16xf32>
  %k_turned = fuel.concat %k_minus, %k_low {dim = 2 : i64} : tensor<2x64x16xf32>, tensor<2x64x16xf32> -> tensor<2x64x32xf32>
  %k_even = fuel.mul %k, %k_cos : tensor<2x64x32xf32>
  %k_odd = fuel.mul %k_turned, %k_sin : tensor<2x64x32xf32>
  %k_rotated = fuel.add %k_even, %k_odd : tensor<2x64x32xf32>

  // The scores of each query with each key, times 1 / sqrt(32).
  %k_columns = fuel.transpose %k_rotated : tensor<2x64x32xf32> -> tensor<2x32x64xf32>
  %products = fuel.matmul %q_rotated, %k_columns : tensor<8x64x32xf32>, tensor<2x32x64xf32> -> tensor<8x64x64xf32>
  %scores = fuel.mul_scalar %products {scalar = 0.17677669529663687 : f64} : tensor<8x64x64xf32>

  // The causal mask: true where the key is later than the query. 0xFF800000 is -inf.
  %positions = fuel.iota : tensor<64xf32>
  %key_position = fuel.broadcast_to %positions : tensor<64xf32> -> tensor<64x64xf32>
  %position_column = fuel.unsqueeze %positions {dim = 1 : i64} : tensor<64xf32> -> tensor<64x1xf32>
  %query_position = fuel.broadcast_to %position_column : tensor<64x1xf32> -> tensor<64x64xf32>
  %later = fuel.gt %key_position, %query_position : tensor<64x64xf32> -> tensor<64x64xi1>
  %mask = fuel.broadcast_to %later : tensor<64x64xi1> -> tensor<8x64x64xi1>
  %causal = fuel.masked_fill %scores, %mask {value = 0xFF800000 : f32} : tensor<8x64x64xf32>, tensor<8x64x64xi1>

  // Weigh the values, join the heads, project, add.
  %attention = fuel.softmax_last_dim %causal : tensor<8x64x64xf32>
  %heads = fuel.matmul %attention, %v : tensor<8x64x64xf32>, tensor<2x64x32xf32> -> tensor<8x64x32xf32>
  %heads_last = fuel.permute %heads {axes = array<i64: 1, 0, 2>} : tensor<8x64x32xf32> -> tensor<64x8x32xf32>
  %joined = fuel.reshape %heads_last : tensor<64x8x32xf32> -> tensor<64x256xf32>
  %wo = fuel.weight "attention.out.kernel" : tensor<256x256xf32>
  %projected = fuel.matmul %joined, %wo : tensor<64x256xf32>, tensor<256x256xf32> -> tensor<64x256xf32>
  %y = fuel.add %x, %projected : tensor<64x256xf32>

  // Gated feed-forward: (silu(n @ w1) * (n @ w3)) @ w2.
  %gain2 = fuel.weight "feed_forward.gain" : tensor<256xf32>
  %unit2 = fuel.rms_norm_last_dim %y {eps = 1.0e-06 : f64} : tensor<64x256xf32>
  %scale2 = fuel.broadcast_to %gain2 : tensor<256xf32> -> tensor<64x256xf32>
  %normed2 = fuel.mul %unit2, %scale2 : tensor<64x256xf32>
  %w1 = fuel.weight "feed_forward.1.kernel" : tensor<256x688xf32>
  %w2 = fuel.weight "feed_forward.2.kernel" : tensor<688x256xf32>
  %w3 = fuel.weight "feed_forward.3.kernel" : tensor<256x688xf32>
  %wide = fuel.matmul %normed2, %w1 : tensor<64x256xf32>, tensor<256x688xf32> -> tensor<64x688xf32>
  %gate = fuel.silu %wide : tensor<64x688xf32>
  %linear = fuel.matmul %normed2, %w3 : tensor<64x256xf32>, tensor<256x688xf32> -> tensor<64x688xf32>
  %gated = fuel.mul %gate, %linear : tensor<64x688xf32>
  %narrow = fuel.matmul %gated, %w2 : tensor<64x688xf32>, tensor<688x256xf32> -> tensor<64x256xf32>
  %out = fuel.add %y, %narrow : tensor<64x256xf32>
  func.return %out : tensor<64x256xf32>
}
