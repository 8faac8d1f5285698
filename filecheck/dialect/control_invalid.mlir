// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.branch "d3/1"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  arm on #fuel.target<cpu, "numpy"> {
    fuel.yield %a : tensor<2xf32>
  }
  func.return
}

// CHECK: branch 'd3/1': the id must be a name without '/'

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.branch "d0"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// CHECK: branch 'd0': needs one arm or more

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.branch "d0"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  arm on #fuel.target<cpu, "numpy"> {
    fuel.yield %a : tensor<2xf32>
  }
  arm on #fuel.target<cpu, "other"> {
    %0 = fuel.eq %a, %a : tensor<2xf32> -> tensor<2xi1>
    fuel.yield %0 : tensor<2xi1>
  }
  func.return
}

// CHECK: branch 'd0', arm 1: yield 0 is tensor<2xi1>, expected tensor<2xf32>

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.branch "d0"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  arm on #fuel.target<cpu, "numpy"> {
    fuel.yield %a, %a : tensor<2xf32>, tensor<2xf32>
  }
  func.return
}

// CHECK: branch 'd0', arm 0: yield: expected 1 values, got 2

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = "fuel.branch"(%x) <{id = "d0", arms = [#fuel.arm<#fuel.target<cpu, "numpy">>, #fuel.arm<#fuel.target<cpu, "numpy">>]}> ({
  ^bb0(%a: tensor<2xf32>):
    fuel.yield %a : tensor<2xf32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// CHECK: branch 'd0': 1 regions but 2 arm descriptions

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = "fuel.branch"(%x) <{id = "d0", arms = [#fuel.arm<#fuel.target<cpu, "numpy">>]}> ({
    %0 = fuel.iota : tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// CHECK: branch 'd0', arm 0: block argument: expected 1 values, got 0

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.branch "d0"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.neg %a : tensor<2xf32>
  }
  func.return
}

// CHECK: Operation fuel.neg terminates block in single-block region but is not a terminator

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.branch "d0"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  arm on "cpu" {
    fuel.yield %a : tensor<2xf32>
  }
  func.return
}

// CHECK: expected a target, such as #fuel.target<cpu, "numpy">

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.branch "d0"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  arm on #fuel.target<cpu, "numpy"> {
    fuel.yield %x : tensor<2xf32>
  }
  func.return
}

// CHECK: Operation using value defined out of its IsolatedFromAbove parent: YieldOp(fuel.yield %x : tensor<2xf32>)

// -----

func.func @f(%x: tensor<2xf32>) {
  fuel.yield %x : tensor<2xf32>
}

// CHECK: 'fuel.yield' expects parent op to be one of 'fuel.branch', 'fuel.kernel', 'fuel.run'

// -----

func.func @f(%h: tensor<2xf32>, %x: tensor<4x2xf32>) {
  %r:2 = fuel.scan init(%c0 = %h : tensor<2xf32>) xs(%row = %x : tensor<4x2xf32>) length 4 -> (tensor<2xf32>, tensor<4x2xf32>) {
    %0 = fuel.slice %c0 {dim = 0 : i64, start = 0 : i64, length = 1 : i64} : tensor<2xf32> -> tensor<1xf32>
    fuel.scan_yield carry(%0 : tensor<1xf32>) ys(%row : tensor<2xf32>)
  }
  func.return
}

// CHECK: scan: next carry 0 is tensor<1xf32>, expected tensor<2xf32>

// -----

func.func @f(%h: tensor<2xf32>, %x: tensor<4x2xf32>) {
  %r:2 = fuel.scan init(%c0 = %h : tensor<2xf32>) xs(%row = %x : tensor<4x2xf32>) length 4 -> (tensor<2xf32>, tensor<4x2xf32>) {
    %0 = fuel.cast %c0 : tensor<2xf32> -> tensor<2xf64>
    fuel.scan_yield carry(%0 : tensor<2xf64>) ys(%row : tensor<2xf32>)
  }
  func.return
}

// CHECK: scan: next carry 0 is tensor<2xf64>, expected tensor<2xf32>

// -----

func.func @f(%h: tensor<2xf32>, %x: tensor<4x2xf32>) {
  %r:2 = fuel.scan init(%c0 = %h : tensor<2xf32>) xs(%row = %x : tensor<4x2xf32>) length 4 -> (tensor<2xf32>, tensor<4x2xf32>) {
    fuel.scan_yield ys(%row : tensor<2xf32>)
  }
  func.return
}

// CHECK: scan: next carry: expected 1 values, got 0

// -----

func.func @f(%h: tensor<2xf32>, %x: tensor<4x2xf32>) {
  %r:2 = fuel.scan init(%c0 = %h : tensor<2xf32>) xs(%row = %x : tensor<4x2xf32>) length 3 -> (tensor<2xf32>, tensor<3x2xf32>) {
    fuel.scan_yield carry(%c0 : tensor<2xf32>) ys(%row : tensor<2xf32>)
  }
  func.return
}

// CHECK: scan: x 0 is tensor<4x2xf32>; its dim 0 must be the length 3

// -----

func.func @f(%h: tensor<2xf32>, %x: tensor<4x2xf32>) {
  %r:2 = fuel.scan init(%c0 = %h : tensor<2xf32>) xs(%row = %x : tensor<4x2xf32>) length 4 -> (tensor<2xf32>, tensor<3x2xf32>) {
    fuel.scan_yield carry(%c0 : tensor<2xf32>) ys(%row : tensor<2xf32>)
  }
  func.return
}

// CHECK: scan: gives tensor<2xf32>, tensor<4x2xf32>, not tensor<2xf32>, tensor<3x2xf32>

// -----

func.func @f(%h: tensor<2xf32>, %x: tensor<4x2xf32>) {
  %r:3 = fuel.scan init(%c0 = %h : tensor<2xf32>) xs(%row = %x : tensor<4x2xf32>) length 4 -> (tensor<2xf32>, tensor<4x2xf32>, tensor<ui32>) {
    %0 = fuel.eq %c0, %c0 : tensor<2xf32> -> tensor<2xi1>
    fuel.scan_yield carry(%c0 : tensor<2xf32>) ys(%row : tensor<2xf32>) until %0 : tensor<2xi1>
  }
  func.return
}

// CHECK: scan: until must be one i1 element, got tensor<2xi1>

// -----

func.func @f(%h: tensor<2xf32>, %x: tensor<4x2xf32>) {
  %r:3 = fuel.scan init(%c0 = %h : tensor<2xf32>) xs(%row = %x : tensor<4x2xf32>) length 4 -> (tensor<2xf32>, tensor<4x2xf32>, tensor<ui32>) {
    %0 = fuel.const 1 : ui8 -> tensor<ui8>
    fuel.scan_yield carry(%c0 : tensor<2xf32>) ys(%row : tensor<2xf32>) until %0 : tensor<ui8>
  }
  func.return
}

// CHECK: scan: until must be one i1 element, got tensor<ui8>

// -----

func.func @f(%h: tensor<2xf32>, %x: tensor<4x2xf32>) {
  %r:2 = fuel.scan init(%c0 = %h : tensor<2xf32>) xs(%row = %x : tensor<4x2xf32>) length 4 -> (tensor<2xf32>, tensor<4x2xf32>) {
    %0 = fuel.branch "d0"(%a = %row : tensor<2xf32>) -> tensor<2xf32>
    arm on #fuel.target<cpu, "numpy"> {
      fuel.yield %a : tensor<2xf32>
    }
    fuel.scan_yield carry(%0 : tensor<2xf32>) ys(%row : tensor<2xf32>)
  }
  func.return
}

// CHECK: scan: branch 'd0' is not allowed in the body; branch around the scan

// -----

func.func @f(%h: tensor<2xf32>) {
  %r = "fuel.scan"(%h) <{length = -1 : i64, operandSegmentSizes = array<i32: 1, 0, 0>}> ({
  ^bb0(%c: tensor<2xf32>):
    fuel.scan_yield carry(%c : tensor<2xf32>)
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// CHECK: scan: the length must be >= 0, got -1

// -----

func.func @f(%x: tensor<4x2xf32>) {
  %r = "fuel.scan"(%x) <{length = 4 : i64, operandSegmentSizes = array<i32: 0, 1, 0>}> ({
  ^bb0(%c: tensor<4xf32>):
    fuel.scan_yield ys(%c : tensor<4xf32>)
  }) : (tensor<4x2xf32>) -> tensor<4x4xf32>
  func.return
}

// CHECK: scan: x 0 is tensor<4xf32> in the body, not tensor<2xf32>

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.kernel magic "k"(%a = %x : tensor<2xf32>) -> tensor<2xf32> {
    fuel.yield %a : tensor<2xf32>
  }
  func.return
}

// CHECK: kernel: unknown kind 'magic'; use one of pointwise, reduction, matmul, movement, scan, library

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.run on #fuel.target<cpu, "numpy"> (%a = %x : tensor<2xf32>) -> tensor<3xf32> {
    fuel.yield %a : tensor<2xf32>
  }
  func.return
}

// CHECK: run: yield 0 is tensor<2xf32>, expected tensor<3xf32>

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.run on #fuel.target<cpu, "numpy"> (%a = %x : tensor<2xf32>) -> tensor<2xf32> {
    %0 = fuel.relu %a : tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }
  func.return
}

// CHECK: run: fuel.relu is not allowed in the body, which holds kernels, constants, weights and iota

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.kernel pointwise "k"(%a = %x : tensor<2xf32>) -> tensor<2xf32> {
    %0 = fuel.copy %a to #fuel.device<cuda:0> : tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }
  func.return
}

// CHECK: kernel 'k': fuel.copy is not allowed in the body, which holds ops that compute

// -----

func.func @f(%x: tensor<2xf32>) {
  %y = fuel.kernel pointwise "outer"(%a = %x : tensor<2xf32>) -> tensor<2xf32> {
    %0 = fuel.kernel pointwise "inner"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      fuel.yield %b : tensor<2xf32>
    }
    fuel.yield %0 : tensor<2xf32>
  }
  func.return
}

// CHECK: kernel 'outer': fuel.kernel is not allowed in the body, which holds ops that compute

// -----

func.func @f(%h: tensor<2xf32>) {
  %r = fuel.scan init(%c = %h : tensor<2xf32>) length 3 -> tensor<2xf32> {
    %0 = fuel.move %c to #fuel.device<cuda:0> : tensor<2xf32>
    fuel.scan_yield carry(%0 : tensor<2xf32>)
  }
  func.return
}

// CHECK: scan: fuel.move is not allowed in the body, which runs on one device; fuel.move what the scan reads or gives

// -----

func.func @f(%h: tensor<2xf32>) {
  %r = fuel.scan init(%c = %h : tensor<2xf32>) length 3 -> tensor<2xf32> {
    %0 = fuel.run on #fuel.target<cpu, "numpy"> (%a = %c : tensor<2xf32>) -> tensor<2xf32> {
      fuel.yield %a : tensor<2xf32>
    }
    fuel.scan_yield carry(%0 : tensor<2xf32>)
  }
  func.return
}

// CHECK: scan: fuel.run is not allowed in the body, which holds ops that compute

// -----

func.func @f(%h: tensor<2xf32>) {
  %r = fuel.scan init(%c = %h : tensor<2xf32>) length 3 -> tensor<2xf32> {
    %0 = "test.op"(%c) : (tensor<2xf32>) -> tensor<2xf32>
    fuel.scan_yield carry(%0 : tensor<2xf32>)
  }
  func.return
}

// CHECK: scan: test.op is not allowed in the body, which holds ops that compute
