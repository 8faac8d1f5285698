// SPDX-License-Identifier: MIT OR Apache-2.0
// A gated recurrent unit over 48 steps: a batch of 16, 64 features a step, 128 hidden units.
//   r = sigmoid(x Wr + h Ur),  z = sigmoid(x Wz + h Uz),  n = tanh(x Wn + r * (h Un))
//   h' = n + z * (h - n)
// (biases left out above). W, U and the biases hold the columns of r, z and n side by side.

func.func @main(%x: tensor<48x16x64xf32> {fuel.name = "x"},
                %h0: tensor<16x128xf32> {fuel.name = "h0"}) -> (tensor<16x128xf32>, tensor<48x16x128xf32>) {
  %W = fuel.weight "gru.input.kernel" : tensor<64x384xf32>
  %U = fuel.weight "gru.hidden.kernel" : tensor<128x384xf32>
  %b = fuel.weight "gru.input.bias" : tensor<384xf32>
  %c = fuel.weight "gru.hidden.bias" : tensor<384xf32>
  %last, %states = fuel.scan
      init(%h = %h0 : tensor<16x128xf32>)
      xs(%step = %x : tensor<48x16x64xf32>)
      consts(%w = %W : tensor<64x384xf32>, %u = %U : tensor<128x384xf32>,
             %bias_x = %b : tensor<384xf32>, %bias_h = %c : tensor<384xf32>)
      length 48 -> (tensor<16x128xf32>, tensor<48x16x128xf32>) {
    // All three gates from the input, and all three from the state.
    %xw = fuel.matmul %step, %w : tensor<16x64xf32>, tensor<64x384xf32> -> tensor<16x384xf32>
    %bx = fuel.broadcast_to %bias_x : tensor<384xf32> -> tensor<16x384xf32>
    %from_x = fuel.add %xw, %bx : tensor<16x384xf32>
    %hu = fuel.matmul %h, %u : tensor<16x128xf32>, tensor<128x384xf32> -> tensor<16x384xf32>
    %bh = fuel.broadcast_to %bias_h : tensor<384xf32> -> tensor<16x384xf32>
    %from_h = fuel.add %hu, %bh : tensor<16x384xf32>

    // Reset gate.
    %rx = fuel.slice %from_x {dim = 1 : i64, start = 0 : i64, length = 128 : i64} : tensor<16x384xf32> -> tensor<16x128xf32>
    %rh = fuel.slice %from_h {dim = 1 : i64, start = 0 : i64, length = 128 : i64} : tensor<16x384xf32> -> tensor<16x128xf32>
    %r_sum = fuel.add %rx, %rh : tensor<16x128xf32>
    %r = fuel.sigmoid %r_sum : tensor<16x128xf32>

    // Update gate.
    %zx = fuel.slice %from_x {dim = 1 : i64, start = 128 : i64, length = 128 : i64} : tensor<16x384xf32> -> tensor<16x128xf32>
    %zh = fuel.slice %from_h {dim = 1 : i64, start = 128 : i64, length = 128 : i64} : tensor<16x384xf32> -> tensor<16x128xf32>
    %z_sum = fuel.add %zx, %zh : tensor<16x128xf32>
    %z = fuel.sigmoid %z_sum : tensor<16x128xf32>

    // Candidate state, then the step from it towards the old one.
    %nx = fuel.slice %from_x {dim = 1 : i64, start = 256 : i64, length = 128 : i64} : tensor<16x384xf32> -> tensor<16x128xf32>
    %nh = fuel.slice %from_h {dim = 1 : i64, start = 256 : i64, length = 128 : i64} : tensor<16x384xf32> -> tensor<16x128xf32>
    %reset = fuel.mul %r, %nh : tensor<16x128xf32>
    %n_sum = fuel.add %nx, %reset : tensor<16x128xf32>
    %n = fuel.tanh %n_sum : tensor<16x128xf32>
    %back = fuel.sub %h, %n : tensor<16x128xf32>
    %kept = fuel.mul %z, %back : tensor<16x128xf32>
    %next = fuel.add %n, %kept : tensor<16x128xf32>
    fuel.scan_yield carry(%next : tensor<16x128xf32>) ys(%next : tensor<16x128xf32>)
  }
  func.return %last, %states : tensor<16x128xf32>, tensor<48x16x128xf32>
}
