// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p 'fuel-insert-copies{topology="cpu+h100"}' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-insert-copies{topology="cpu+h100"},fuel-insert-copies{topology="cpu+h100"}' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-insert-copies{topology="cpu"}' | filecheck %s --check-prefix=HOST

// HOST-NOT: planned

// Arguments and results live on the host; a value goes to a device once.
// CHECK-LABEL: @once
// CHECK-NEXT: %x_1 = fuel.copy %x to #fuel.device<cuda:0> planned : tensor<8xf32>
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp" on #fuel.target<cuda:0, "triton"> (%a = %x_1 : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %1 = fuel.copy %0 to #fuel.device<cpu> planned : tensor<8xf32>
// CHECK-NEXT: %2 = fuel.kernel pointwise "neg" on #fuel.target<cuda:0, "triton"> (%a = %x_1 : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.neg %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %3 = fuel.copy %2 to #fuel.device<cpu> planned : tensor<8xf32>
// CHECK-NEXT: func.return %1, %3 : tensor<8xf32>, tensor<8xf32>
func.func @once(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fuel.kernel pointwise "exp" on #fuel.target<cuda:0, "triton"> (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
    %e = fuel.exp %a : tensor<8xf32>
    fuel.yield %e : tensor<8xf32>
  }
  %1 = fuel.kernel pointwise "neg" on #fuel.target<cuda:0, "triton"> (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
    %e = fuel.neg %a : tensor<8xf32>
    fuel.yield %e : tensor<8xf32>
  }
  func.return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// They may live elsewhere.
// CHECK-LABEL: @resident
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp" on #fuel.target<cuda:0, "triton"> (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %0 : tensor<8xf32>
func.func @resident(%x: tensor<8xf32> {fuel.device = #fuel.device<cuda:0>}) -> (tensor<8xf32> {fuel.device = #fuel.device<cuda:0>}) {
  %0 = fuel.kernel pointwise "exp" on #fuel.target<cuda:0, "triton"> (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
    %e = fuel.exp %a : tensor<8xf32>
    fuel.yield %e : tensor<8xf32>
  }
  func.return %0 : tensor<8xf32>
}

// An arm asks for what it alone reads; it yields where it computed.
// CHECK-LABEL: @lazy
// CHECK-NEXT: %y = fuel.branch "b"(%p = %x : tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %0 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NEXT: %p_1 = fuel.copy %p to #fuel.device<cuda:0> planned : tensor<8xf32>
// CHECK-NEXT: %1 = fuel.kernel pointwise "exp"(%a = %p_1 : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %1 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %y_1 = fuel.copy %y to #fuel.device<cpu> planned : tensor<8xf32>
// CHECK-NEXT: func.return %y_1 : tensor<8xf32>
func.func @lazy(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = fuel.branch "b"(%p = %x : tensor<8xf32>) -> tensor<8xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.exp %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.exp %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}

// What an arm and its surroundings read on one device is brought there in front of the branch.
// CHECK-LABEL: @hoisted
// CHECK-NEXT: %x_1 = fuel.copy %x to #fuel.device<cuda:0> planned : tensor<8xf32>
// CHECK-NEXT: %y = fuel.branch "b"(%p = %x : tensor<8xf32>, %x_2 = %x_1 : tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %0 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NEXT: %1 = fuel.kernel pointwise "exp"(%a = %x_2 : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %1 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %y_1 = fuel.copy %y to #fuel.device<cpu> planned : tensor<8xf32>
// CHECK-NEXT: %0 = fuel.kernel pointwise "neg" on #fuel.target<cuda:0, "triton"> (%a = %x_1 : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.neg %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %1 = fuel.copy %0 to #fuel.device<cpu> planned : tensor<8xf32>
// CHECK-NEXT: func.return %y_1, %1 : tensor<8xf32>, tensor<8xf32>
func.func @hoisted(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y = fuel.branch "b"(%p = %x : tensor<8xf32>) -> tensor<8xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.exp %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.exp %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  %1 = fuel.kernel pointwise "neg" on #fuel.target<cuda:0, "triton"> (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
    %e = fuel.neg %a : tensor<8xf32>
    fuel.yield %e : tensor<8xf32>
  }
  func.return %y, %1 : tensor<8xf32>, tensor<8xf32>
}

// Where two arms read on one device and no other reads at all, the branch takes the copy alone.
// CHECK-LABEL: @taken_over
// CHECK-NEXT: %x_1 = fuel.copy %x to #fuel.device<cuda:0> planned : tensor<8xf32>
// CHECK-NEXT: %y = fuel.branch "b"(%p = %x_1 : tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %0 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NEXT: %1 = fuel.kernel pointwise "neg"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.neg %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %1 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %y_1 = fuel.copy %y to #fuel.device<cpu> planned : tensor<8xf32>
// CHECK-NEXT: func.return %y_1 : tensor<8xf32>
func.func @taken_over(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = fuel.branch "b"(%p = %x : tensor<8xf32>) -> tensor<8xf32>
  arm on #fuel.target<cuda:0, "triton"> {
    %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.exp %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %0 = fuel.kernel pointwise "neg"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.neg %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}

// A person's transfer stays, and is no reader of its own.
// CHECK-LABEL: @written
// CHECK-NEXT: %c = fuel.copy %x to #fuel.device<cuda:0> : tensor<8xf32>
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp" on #fuel.target<cuda:0, "triton"> (%a = %c : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %1 = fuel.copy %0 to #fuel.device<cpu> planned : tensor<8xf32>
// CHECK-NEXT: func.return %1 : tensor<8xf32>
func.func @written(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = fuel.copy %x to #fuel.device<cuda:0> : tensor<8xf32>
  %0 = fuel.kernel pointwise "exp" on #fuel.target<cuda:0, "triton"> (%a = %c : tensor<8xf32>) -> tensor<8xf32> {
    %e = fuel.exp %a : tensor<8xf32>
    fuel.yield %e : tensor<8xf32>
  }
  func.return %0 : tensor<8xf32>
}
