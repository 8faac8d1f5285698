// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p 'fuel-converge{topology="cpu+h100"}' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-converge{topology="cpu+h100"},fuel-converge{topology="cpu+h100"}' | filecheck %s

// The same twice, and what is dearer than another on its device.
// CHECK-LABEL: @equal
// CHECK-NEXT: %y = fuel.branch "d0"(%p = %x : tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: arm on #fuel.target<cuda:0, "triton"> price 10 origin "fuel-fork-placements: as planned" {
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %0 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: arm on #fuel.target<cpu, "numpy"> price 20 origin "fuel-fork-placements: runner-up" {
// CHECK-NEXT: %1 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %1 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %y : tensor<8xf32>
func.func @equal(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = fuel.branch "d0"(%p = %x : tensor<8xf32>) -> tensor<8xf32>
  arm on #fuel.target<cuda:0, "triton"> price 10 origin "fuel-fork-placements: as planned" {
    %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.exp %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> price 10 origin "fuel-fork-placements: again" {
    %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.exp %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 20 origin "fuel-fork-placements: runner-up" {
    %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.exp %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 30 origin "fuel-fork-placements: another" {
    %0 = fuel.kernel pointwise "neg"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.neg %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}

// One arm too many for so few kernels: the least valuable decision goes, its kernels stay where they were.
// CHECK-LABEL: @gate
// CHECK-NEXT: %y = fuel.kernel pointwise "exp" on #fuel.target<cuda:0, "triton"> (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %z = fuel.branch "d1"(%p = %y : tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: arm on #fuel.target<cuda:0, "triton"> price 100 origin "fuel-fork-placements: as planned" {
// CHECK-NEXT: %0 = fuel.kernel pointwise "neg"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.neg %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %0 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: arm on #fuel.target<cpu, "numpy"> price 200 origin "fuel-fork-placements: runner-up" {
// CHECK-NEXT: %1 = fuel.kernel pointwise "neg"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.neg %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %1 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %z : tensor<8xf32>
func.func @gate(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = fuel.branch "d0"(%p = %x : tensor<8xf32>) -> tensor<8xf32>
  arm on #fuel.target<cuda:0, "triton"> price 10 origin "fuel-fork-placements: as planned" {
    %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.exp %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 20 origin "fuel-fork-placements: runner-up" {
    %0 = fuel.kernel pointwise "exp"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.exp %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  %z = fuel.branch "d1"(%p = %y : tensor<8xf32>) -> tensor<8xf32>
  arm on #fuel.target<cuda:0, "triton"> price 100 origin "fuel-fork-placements: as planned" {
    %0 = fuel.kernel pointwise "neg"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.neg %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 200 origin "fuel-fork-placements: runner-up" {
    %0 = fuel.kernel pointwise "neg"(%a = %p : tensor<8xf32>) -> tensor<8xf32> {
      %e = fuel.neg %a : tensor<8xf32>
      fuel.yield %e : tensor<8xf32>
    }
    fuel.yield %0 : tensor<8xf32>
  }
  func.return %z : tensor<8xf32>
}

// A person's decisions stay.
// CHECK-LABEL: @written
// CHECK-NEXT: %y = fuel.branch "b"(%p = %x : tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT: fuel.yield %p : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT: fuel.yield %p : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %y : tensor<8xf32>
func.func @written(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = fuel.branch "b"(%p = %x : tensor<8xf32>) -> tensor<8xf32>
  arm on #fuel.target<cpu, "numpy"> {
    fuel.yield %p : tensor<8xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    fuel.yield %p : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}
