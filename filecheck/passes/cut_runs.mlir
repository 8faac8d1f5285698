// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-cut-runs | filecheck %s
// RUN: xdsl-opt %s -p fuel-cut-runs,fuel-cut-runs | filecheck %s

// The host goes on with two values of a card: the kernels of each are a run of their own there, so
// that the first comes while the card computes the second. On the host nothing would be gained.
// CHECK-LABEL: @two_values
// CHECK:         %a = fuel.run on #fuel.target<cuda:0, "triton"> (
// CHECK:         %b = fuel.run on #fuel.target<cuda:0, "triton"> (
// CHECK:         %p, %q = fuel.run on #fuel.target<cpu, "numpy"> (
func.func @two_values(%x: tensor<262144xf32>) -> (tensor<262144xf32>, tensor<262144xf32>) {
  %c = fuel.copy %x to #fuel.device<cuda:0> : tensor<262144xf32>
  %a, %b = fuel.run on #fuel.target<cuda:0, "triton"> (%a_in = %c : tensor<262144xf32>, %b_in = %c : tensor<262144xf32>) -> (tensor<262144xf32>, tensor<262144xf32>) {
    %a0 = fuel.kernel pointwise "sin"(%in = %a_in : tensor<262144xf32>) -> tensor<262144xf32> {
      %o = fuel.sin %in : tensor<262144xf32>
      fuel.yield %o : tensor<262144xf32>
    }
    %a1 = fuel.kernel pointwise "sin"(%in = %a0 : tensor<262144xf32>) -> tensor<262144xf32> {
      %o = fuel.sin %in : tensor<262144xf32>
      fuel.yield %o : tensor<262144xf32>
    }
    %b0 = fuel.kernel pointwise "sin"(%in = %b_in : tensor<262144xf32>) -> tensor<262144xf32> {
      %o = fuel.sin %in : tensor<262144xf32>
      fuel.yield %o : tensor<262144xf32>
    }
    %b1 = fuel.kernel pointwise "sin"(%in = %b0 : tensor<262144xf32>) -> tensor<262144xf32> {
      %o = fuel.sin %in : tensor<262144xf32>
      fuel.yield %o : tensor<262144xf32>
    }
    fuel.yield %a1, %b1 : tensor<262144xf32>, tensor<262144xf32>
  }
  %ha = fuel.copy %a to #fuel.device<cpu> : tensor<262144xf32>
  %hb = fuel.copy %b to #fuel.device<cpu> : tensor<262144xf32>
  %p, %q = fuel.run on #fuel.target<cpu, "numpy"> (%p_in = %ha : tensor<262144xf32>, %q_in = %hb : tensor<262144xf32>) -> (tensor<262144xf32>, tensor<262144xf32>) {
    %p0 = fuel.kernel pointwise "sin"(%in = %p_in : tensor<262144xf32>) -> tensor<262144xf32> {
      %o = fuel.sin %in : tensor<262144xf32>
      fuel.yield %o : tensor<262144xf32>
    }
    %p1 = fuel.kernel pointwise "sin"(%in = %p0 : tensor<262144xf32>) -> tensor<262144xf32> {
      %o = fuel.sin %in : tensor<262144xf32>
      fuel.yield %o : tensor<262144xf32>
    }
    %q0 = fuel.kernel pointwise "sin"(%in = %q_in : tensor<262144xf32>) -> tensor<262144xf32> {
      %o = fuel.sin %in : tensor<262144xf32>
      fuel.yield %o : tensor<262144xf32>
    }
    %q1 = fuel.kernel pointwise "sin"(%in = %q0 : tensor<262144xf32>) -> tensor<262144xf32> {
      %o = fuel.sin %in : tensor<262144xf32>
      fuel.yield %o : tensor<262144xf32>
    }
    fuel.yield %p1, %q1 : tensor<262144xf32>, tensor<262144xf32>
  }
  func.return %p, %q : tensor<262144xf32>, tensor<262144xf32>
}

// What it would save is less than what two more runs cost.
// CHECK-LABEL: @little_to_save
// CHECK:         %a, %b = fuel.run on #fuel.target<cuda:0, "triton"> (
// CHECK:         %p, %q = fuel.run on #fuel.target<cpu, "numpy"> (
func.func @little_to_save(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c = fuel.copy %x to #fuel.device<cuda:0> : tensor<4xf32>
  %a, %b = fuel.run on #fuel.target<cuda:0, "triton"> (%a_in = %c : tensor<4xf32>, %b_in = %c : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a0 = fuel.kernel pointwise "sin"(%in = %a_in : tensor<4xf32>) -> tensor<4xf32> {
      %o = fuel.sin %in : tensor<4xf32>
      fuel.yield %o : tensor<4xf32>
    }
    %b0 = fuel.kernel pointwise "sin"(%in = %b_in : tensor<4xf32>) -> tensor<4xf32> {
      %o = fuel.sin %in : tensor<4xf32>
      fuel.yield %o : tensor<4xf32>
    }
    fuel.yield %a0, %b0 : tensor<4xf32>, tensor<4xf32>
  }
  %ha = fuel.copy %a to #fuel.device<cpu> : tensor<4xf32>
  %hb = fuel.copy %b to #fuel.device<cpu> : tensor<4xf32>
  %p, %q = fuel.run on #fuel.target<cpu, "numpy"> (%p_in = %ha : tensor<4xf32>, %q_in = %hb : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %p0 = fuel.kernel pointwise "sin"(%in = %p_in : tensor<4xf32>) -> tensor<4xf32> {
      %o = fuel.sin %in : tensor<4xf32>
      fuel.yield %o : tensor<4xf32>
    }
    %q0 = fuel.kernel pointwise "sin"(%in = %q_in : tensor<4xf32>) -> tensor<4xf32> {
      %o = fuel.sin %in : tensor<4xf32>
      fuel.yield %o : tensor<4xf32>
    }
    fuel.yield %p0, %q0 : tensor<4xf32>, tensor<4xf32>
  }
  func.return %p, %q : tensor<4xf32>, tensor<4xf32>
}

// One device has nothing to wait for.
// CHECK-LABEL: @one_device
// CHECK:         %a, %b = fuel.run on #fuel.target<cuda:0, "triton"> (
func.func @one_device(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a, %b = fuel.run on #fuel.target<cuda:0, "triton"> (%a_in = %x : tensor<4xf32>, %b_in = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a0 = fuel.kernel pointwise "sin"(%in = %a_in : tensor<4xf32>) -> tensor<4xf32> {
      %o = fuel.sin %in : tensor<4xf32>
      fuel.yield %o : tensor<4xf32>
    }
    %b0 = fuel.kernel pointwise "sin"(%in = %b_in : tensor<4xf32>) -> tensor<4xf32> {
      %o = fuel.sin %in : tensor<4xf32>
      fuel.yield %o : tensor<4xf32>
    }
    fuel.yield %a0, %b0 : tensor<4xf32>, tensor<4xf32>
  }
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
