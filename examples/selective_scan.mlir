// SPDX-License-Identifier: MIT OR Apache-2.0
// The selective scan of Mamba-1: 128 steps, 64 channels with a state of 16 each.
//   dt = softplus(delta)
//   h' = exp(dt * A) * h + (dt * u) * B;   y = h' C + D * u
// u, delta, B and C change with the step, A and D do not.

func.func @main(%u: tensor<128x64xf32> {fuel.name = "u"},
                %delta: tensor<128x64xf32> {fuel.name = "delta"},
                %B: tensor<128x16xf32> {fuel.name = "b"},
                %C: tensor<128x16xf32> {fuel.name = "c"}) -> (tensor<128x64xf32>, tensor<64x16xf32>) {
  // softplus(d) = max(d, 0) + log(1 + exp(-|d|)), which no large |d| overflows.
  %zero = fuel.const 0.0 : f32 -> tensor<128x64xf32>
  %positive = fuel.maximum %delta, %zero : tensor<128x64xf32>
  %magnitude = fuel.abs %delta : tensor<128x64xf32>
  %minus = fuel.neg %magnitude : tensor<128x64xf32>
  %small = fuel.exp %minus : tensor<128x64xf32>
  %one_more = fuel.add_scalar %small {scalar = 1.0 : f64} : tensor<128x64xf32>
  %tail = fuel.log %one_more : tensor<128x64xf32>
  %dt = fuel.add %positive, %tail : tensor<128x64xf32>

  // The input of each step, scaled by its step size.
  %du = fuel.mul %dt, %u : tensor<128x64xf32>

  %A = fuel.weight "ssm.decay" : tensor<64x16xf32>
  %empty = fuel.const 0.0 : f32 -> tensor<64x16xf32>
  %state, %mixed = fuel.scan
      init(%h = %empty : tensor<64x16xf32>)
      xs(%dt_t = %dt : tensor<128x64xf32>, %du_t = %du : tensor<128x64xf32>,
         %b_t = %B : tensor<128x16xf32>, %c_t = %C : tensor<128x16xf32>)
      consts(%a = %A : tensor<64x16xf32>)
      length 128 -> (tensor<64x16xf32>, tensor<128x64xf32>) {
    // Discretise: how much of each state is kept, and what comes in.
    %dt_column = fuel.unsqueeze %dt_t {dim = 1 : i64} : tensor<64xf32> -> tensor<64x1xf32>
    %dt_all = fuel.broadcast_to %dt_column : tensor<64x1xf32> -> tensor<64x16xf32>
    %exponent = fuel.mul %dt_all, %a : tensor<64x16xf32>
    %decay = fuel.exp %exponent : tensor<64x16xf32>
    %du_column = fuel.unsqueeze %du_t {dim = 1 : i64} : tensor<64xf32> -> tensor<64x1xf32>
    %du_all = fuel.broadcast_to %du_column : tensor<64x1xf32> -> tensor<64x16xf32>
    %b_all = fuel.broadcast_to %b_t : tensor<16xf32> -> tensor<64x16xf32>
    %drive = fuel.mul %du_all, %b_all : tensor<64x16xf32>

    %kept = fuel.mul %decay, %h : tensor<64x16xf32>
    %next = fuel.add %kept, %drive : tensor<64x16xf32>

    // Read the state out.
    %c_column = fuel.unsqueeze %c_t {dim = 1 : i64} : tensor<16xf32> -> tensor<16x1xf32>
    %y_column = fuel.matmul %next, %c_column : tensor<64x16xf32>, tensor<16x1xf32> -> tensor<64x1xf32>
    %y = fuel.squeeze %y_column {dim = 1 : i64} : tensor<64x1xf32> -> tensor<64xf32>
    fuel.scan_yield carry(%next : tensor<64x16xf32>) ys(%y : tensor<64xf32>)
  }

  // The skip connection, of all steps at once.
  %D = fuel.weight "ssm.skip.gain" : tensor<64xf32>
  %skip = fuel.broadcast_to %D : tensor<64xf32> -> tensor<128x64xf32>
  %direct = fuel.mul %skip, %u : tensor<128x64xf32>
  %out = fuel.add %mixed, %direct : tensor<128x64xf32>
  func.return %out, %state : tensor<128x64xf32>, tensor<64x16xf32>
}
