// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | xdsl-opt | filecheck %s

func.func @branch(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %y, %z = fuel.branch "d0"(%a = %x : tensor<4x8xf32>, %b = %x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  arm on #fuel.target<cpu, "numpy"> price 410000 origin "fuel-fork-variants: decomposed" {
    %0 = fuel.softmax_last_dim %a : tensor<4x8xf32>
    fuel.yield %0, %b : tensor<4x8xf32>, tensor<4x8xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> price 9223372036854775807 {
    %0 = fuel.copy %b to #fuel.device<cuda:0> : tensor<4x8xf32>
    %1 = fuel.branch "d1"(%c = %0 : tensor<4x8xf32>) -> tensor<4x8xf32>
    arm on #fuel.target<cuda:0, "triton"> {
      %2 = fuel.softmax_last_dim %c : tensor<4x8xf32>
      fuel.yield %2 : tensor<4x8xf32>
    }
    arm on #fuel.target<cuda:0, "cublas"> {
      %2 = fuel.relu %c : tensor<4x8xf32>
      fuel.yield %2 : tensor<4x8xf32>
    }
    fuel.yield %1, %a : tensor<4x8xf32>, tensor<4x8xf32>
  }
  func.return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

func.func @no_inputs() -> tensor<2xf32> {
  %y = fuel.branch "only"() -> tensor<2xf32> attributes {note = "kept", placement = #fuel.device<cpu>}
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.iota : tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }
  arm on #fuel.target<cpu, "other"> {
    %0 = fuel.const 1.0 : f32 -> tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }
  func.return %y : tensor<2xf32>
}

func.func @scan(%h: tensor<8xf32>, %x: tensor<4x8xf32>, %k: tensor<8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>, tensor<ui32>) {
  %c, %ys, %steps = fuel.scan init(%c0 = %h : tensor<8xf32>) xs(%row = %x : tensor<4x8xf32>) consts(%w = %k : tensor<8xf32>) length 4 reverse -> (tensor<8xf32>, tensor<4x8xf32>, tensor<ui32>) attributes {note = 1 : i64} {
    %0 = fuel.add %c0, %row : tensor<8xf32>
    %1 = fuel.mul %0, %w : tensor<8xf32>
    %2 = fuel.slice %1 {dim = 0 : i64, start = 0 : i64, length = 1 : i64} : tensor<8xf32> -> tensor<1xf32>
    %3 = fuel.lt %2, %2 : tensor<1xf32> -> tensor<1xi1>
    fuel.scan_yield carry(%1 : tensor<8xf32>) ys(%0 : tensor<8xf32>) until %3 : tensor<1xi1>
  }
  func.return %c, %ys, %steps : tensor<8xf32>, tensor<4x8xf32>, tensor<ui32>
}

func.func @scan_edges(%h: tensor<f32>) -> (tensor<f32>, tensor<0x2xf32>) {
  %c = fuel.scan init(%c0 = %h : tensor<f32>) length 7 -> tensor<f32> {
    %0 = fuel.sqr %c0 : tensor<f32>
    fuel.scan_yield carry(%0 : tensor<f32>)
  }
  %ys = fuel.scan length 0 -> tensor<0x2xf32> {
    %0 = fuel.iota : tensor<2xf32>
    fuel.scan_yield ys(%0 : tensor<2xf32>)
  }
  func.return %c, %ys : tensor<f32>, tensor<0x2xf32>
}

func.func @plan(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r, %s = fuel.run on #fuel.target<cpu, "numpy"> (%a = %x : tensor<4xf32>, %b = %y : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = fuel.kernel pointwise "add, relu"(%c = %a : tensor<4xf32>, %d = %b : tensor<4xf32>) -> tensor<4xf32> {
      %1 = fuel.add %c, %d : tensor<4xf32>
      %2 = fuel.relu %1 : tensor<4xf32>
      fuel.yield %2 : tensor<4xf32>
    }
    %3 = fuel.kernel library "softmax_last_dim" on #fuel.target<cuda:0, "triton"> (%c = %a : tensor<4xf32>) -> tensor<4xf32> attributes {price = 12 : i64} {
      %4 = fuel.softmax_last_dim %c : tensor<4xf32>
      fuel.yield %4 : tensor<4xf32>
    }
    fuel.yield %0, %3 : tensor<4xf32>, tensor<4xf32>
  }
  func.return %r, %s : tensor<4xf32>, tensor<4xf32>
}

// CHECK: func.func @branch(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
// CHECK-NEXT:   %y, %z = fuel.branch "d0"(%a = %x : tensor<4x8xf32>, %b = %x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-NEXT:   arm on #fuel.target<cpu, "numpy"> price 410000 origin "fuel-fork-variants: decomposed" {
// CHECK-NEXT:     %0 = fuel.softmax_last_dim %a : tensor<4x8xf32>
// CHECK-NEXT:     fuel.yield %0, %b : tensor<4x8xf32>, tensor<4x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   arm on #fuel.target<cuda:0, "triton"> price 9223372036854775807 {
// CHECK-NEXT:     %1 = fuel.copy %b to #fuel.device<cuda:0> : tensor<4x8xf32>
// CHECK-NEXT:     %2 = fuel.branch "d1"(%c = %1 : tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:     arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NEXT:       %3 = fuel.softmax_last_dim %c : tensor<4x8xf32>
// CHECK-NEXT:       fuel.yield %3 : tensor<4x8xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     arm on #fuel.target<cuda:0, "cublas"> {
// CHECK-NEXT:       %4 = fuel.relu %c : tensor<4x8xf32>
// CHECK-NEXT:       fuel.yield %4 : tensor<4x8xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     fuel.yield %2, %a : tensor<4x8xf32>, tensor<4x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @no_inputs() -> tensor<2xf32> {
// CHECK-NEXT:   %y = fuel.branch "only"() -> tensor<2xf32> attributes {note = "kept", placement = #fuel.device<cpu>}
// CHECK-NEXT:   arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT:     %0 = fuel.iota : tensor<2xf32>
// CHECK-NEXT:     fuel.yield %0 : tensor<2xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   arm on #fuel.target<cpu, "other"> {
// CHECK-NEXT:     %1 = fuel.const 1.000000e+00 : f32 -> tensor<2xf32>
// CHECK-NEXT:     fuel.yield %1 : tensor<2xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y : tensor<2xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @scan(%h: tensor<8xf32>, %x: tensor<4x8xf32>, %k: tensor<8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>, tensor<ui32>) {
// CHECK-NEXT:   %c, %ys, %steps = fuel.scan init(%c0 = %h : tensor<8xf32>) xs(%row = %x : tensor<4x8xf32>) consts(%w = %k : tensor<8xf32>) length 4 reverse -> (tensor<8xf32>, tensor<4x8xf32>, tensor<ui32>) attributes {note = 1 : i64} {
// CHECK-NEXT:     %0 = fuel.add %c0, %row : tensor<8xf32>
// CHECK-NEXT:     %1 = fuel.mul %0, %w : tensor<8xf32>
// CHECK-NEXT:     %2 = fuel.slice %1 {dim = 0 : i64, start = 0 : i64, length = 1 : i64} : tensor<8xf32> -> tensor<1xf32>
// CHECK-NEXT:     %3 = fuel.lt %2, %2 : tensor<1xf32> -> tensor<1xi1>
// CHECK-NEXT:     fuel.scan_yield carry(%1 : tensor<8xf32>) ys(%0 : tensor<8xf32>) until %3 : tensor<1xi1>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %c, %ys, %steps : tensor<8xf32>, tensor<4x8xf32>, tensor<ui32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @scan_edges(%h: tensor<f32>) -> (tensor<f32>, tensor<0x2xf32>) {
// CHECK-NEXT:   %c = fuel.scan init(%c0 = %h : tensor<f32>) length 7 -> tensor<f32> {
// CHECK-NEXT:     %0 = fuel.sqr %c0 : tensor<f32>
// CHECK-NEXT:     fuel.scan_yield carry(%0 : tensor<f32>)
// CHECK-NEXT:   }
// CHECK-NEXT:   %ys = fuel.scan length 0 -> tensor<0x2xf32> {
// CHECK-NEXT:     %0 = fuel.iota : tensor<2xf32>
// CHECK-NEXT:     fuel.scan_yield ys(%0 : tensor<2xf32>)
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %c, %ys : tensor<f32>, tensor<0x2xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @plan(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT:   %r, %s = fuel.run on #fuel.target<cpu, "numpy"> (%a = %x : tensor<4xf32>, %b = %y : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT:     %0 = fuel.kernel pointwise "add, relu"(%c = %a : tensor<4xf32>, %d = %b : tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:       %1 = fuel.add %c, %d : tensor<4xf32>
// CHECK-NEXT:       %2 = fuel.relu %1 : tensor<4xf32>
// CHECK-NEXT:       fuel.yield %2 : tensor<4xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     %1 = fuel.kernel library "softmax_last_dim" on #fuel.target<cuda:0, "triton"> (%c = %a : tensor<4xf32>) -> tensor<4xf32> attributes {price = 12 : i64} {
// CHECK-NEXT:       %2 = fuel.softmax_last_dim %c : tensor<4xf32>
// CHECK-NEXT:       fuel.yield %2 : tensor<4xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     fuel.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %r, %s : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: }
