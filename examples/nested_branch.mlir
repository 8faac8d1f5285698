// SPDX-License-Identifier: MIT OR Apache-2.0
// A decision written by hand, with another one inside. All arms compute the softmax of each row:
//   softmax           arm 0: the op itself; arm 1: shift by the maximum of the row, then decide again
//   softmax/1/divide  arm 0: divide by the sum; arm 1: subtract the logarithm of the sum
// `fuel-run nested_branch.mlir --force softmax=1 --force softmax/1/divide=1 ...` takes both second arms.

func.func @main(%x: tensor<64x256xf32> {fuel.name = "x"}) -> tensor<64x256xf32> {
  // What comes before a decision and after it runs whichever arm is taken.
  %hot = fuel.mul_scalar %x {scalar = 4.0 : f64} : tensor<64x256xf32>
  %probabilities = fuel.branch "softmax"(%a = %hot : tensor<64x256xf32>) -> tensor<64x256xf32>
  arm on #fuel.target<cpu, "numpy"> price 60000 {
    %whole = fuel.softmax_last_dim %a : tensor<64x256xf32>
    fuel.yield %whole : tensor<64x256xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 75000 {
    %peak = fuel.reduce_max_to %a : tensor<64x256xf32> -> tensor<64x1xf32>
    %peaks = fuel.broadcast_to %peak : tensor<64x1xf32> -> tensor<64x256xf32>
    %shifted = fuel.sub %a, %peaks : tensor<64x256xf32>
    %inner = fuel.branch "divide"(%s = %shifted : tensor<64x256xf32>) -> tensor<64x256xf32>
    arm on #fuel.target<cpu, "numpy"> price 40000 {
      %e = fuel.exp %s : tensor<64x256xf32>
      %total = fuel.reduce_sum_to %e : tensor<64x256xf32> -> tensor<64x1xf32>
      %totals = fuel.broadcast_to %total : tensor<64x1xf32> -> tensor<64x256xf32>
      %quotient = fuel.div %e, %totals : tensor<64x256xf32>
      fuel.yield %quotient : tensor<64x256xf32>
    }
    arm on #fuel.target<cpu, "numpy"> price 55000 {
      %logs = fuel.log_softmax_last_dim %s : tensor<64x256xf32>
      %back = fuel.exp %logs : tensor<64x256xf32>
      fuel.yield %back : tensor<64x256xf32>
    }
    fuel.yield %inner : tensor<64x256xf32>
  }
  %g = fuel.weight "out.gain" : tensor<256xf32>
  %gain = fuel.broadcast_to %g : tensor<256xf32> -> tensor<64x256xf32>
  %out = fuel.mul %probabilities, %gain : tensor<64x256xf32>
  func.return %out : tensor<64x256xf32>
}
