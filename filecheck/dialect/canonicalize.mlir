// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p canonicalize | filecheck %s
// RUN: xdsl-opt %s -p cse,canonicalize,dce,canonicalize | filecheck %s --check-prefix=ARMS

// Splats stay splats at any size, and bytes fold element by element.
// CHECK-LABEL: func.func @fold_pure
// CHECK-NEXT: %{{.*}} = fuel.const 2.000000e+00 : f32 -> tensor<4096x4096xf32>
// CHECK-NEXT: %{{.*}} = fuel.const #fuel.bytes<"0x0000004000008040"> -> tensor<2xf32>
// CHECK-NEXT: %{{.*}} = fuel.const #fuel.bytes<"0x0100000000000000"> -> tensor<2xi32>
// CHECK-NEXT: %{{.*}} = fuel.const 1 : ui32 -> tensor<1xui32>
// CHECK-NEXT: func.return
func.func @fold_pure() -> (tensor<4096x4096xf32>, tensor<2xf32>, tensor<2xi32>, tensor<1xui32>) {
  %one = fuel.const 1.0 : f32 -> tensor<f32>
  %big = fuel.broadcast_to %one : tensor<f32> -> tensor<4096x4096xf32>
  %sum = fuel.add %big, %big : tensor<4096x4096xf32>
  %pair = fuel.const #fuel.bytes<"0x0000803F00000040"> -> tensor<2xf32>
  %double = fuel.mul_scalar %pair {scalar = 2.0 : f64} : tensor<2xf32>
  %left = fuel.const #fuel.bytes<"0x0700000000000080"> -> tensor<2xi32>
  %right = fuel.const #fuel.bytes<"0x0500000000000000"> -> tensor<2xi32>
  %quotient = fuel.div %left, %right : tensor<2xi32>
  %row = fuel.unsqueeze %double {dim = 0 : i64} : tensor<2xf32> -> tensor<1x2xf32>
  %largest = fuel.argmax_dim %row {dim = 1 : i64} : tensor<1x2xf32> -> tensor<1xui32>
  func.return %sum, %double, %quotient, %largest : tensor<4096x4096xf32>, tensor<2xf32>, tensor<2xi32>, tensor<1xui32>
}

// NaN, its sign and the sign of zero survive folding; x + 0, x - x and x * 0 are left alone.
// CHECK-LABEL: func.func @fold_exact
// CHECK-NEXT: %{{.*}} = fuel.const 0x7fc00000 : f32 -> tensor<2xf32>
// CHECK-NEXT: %{{.*}} = fuel.const -0.000000e+00 : f32 -> tensor<2xf32>
// CHECK-NEXT: %{{.*}} = fuel.const #fuel.bytes<"0x0100C0FF000080FF"> -> tensor<2xf32>
// CHECK-NEXT: %[[ZERO:.*]] = fuel.const 0.000000e+00 : f32 -> tensor<2xf32>
// CHECK-NEXT: %{{.*}} = fuel.add %x, %[[ZERO]] : tensor<2xf32>
// CHECK-NEXT: %{{.*}} = fuel.sub %x, %x : tensor<2xf32>
// CHECK-NEXT: %{{.*}} = fuel.mul_scalar %x {scalar = 0.000000e+00 : f64} : tensor<2xf32>
// CHECK-NEXT: func.return
func.func @fold_exact(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %nan = fuel.const 0x7FC00000 : f32 -> tensor<2xf32>
  %one = fuel.const 1.0 : f32 -> tensor<2xf32>
  %larger = fuel.maximum %one, %nan : tensor<2xf32>
  %negative = fuel.const -0.0 : f32 -> tensor<2xf32>
  %negative_sum = fuel.add %negative, %negative : tensor<2xf32>
  %payload = fuel.const #fuel.bytes<"0x000080FF0100C0FF"> -> tensor<2xf32>
  %flipped = fuel.flip %payload {dim = 0 : i64} : tensor<2xf32> -> tensor<2xf32>
  %zero = fuel.const 0.0 : f32 -> tensor<2xf32>
  %plus = fuel.add %x, %zero : tensor<2xf32>
  %minus = fuel.sub %x, %x : tensor<2xf32>
  %times = fuel.mul_scalar %x {scalar = 0.0 : f64} : tensor<2xf32>
  func.return %larger, %negative_sum, %flipped, %plus, %minus, %times : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// What raises when it runs, what moves between devices and what would grow the IR stays.
// CHECK-LABEL: func.func @no_fold
// CHECK: fuel.index_select
// CHECK: fuel.copy
// CHECK: fuel.concat
func.func @no_fold() -> (tensor<1xf32>, tensor<2xf32>, tensor<80000xf32>) {
  %x = fuel.const 1.0 : f32 -> tensor<2xf32>
  %i = fuel.const 7 : ui32 -> tensor<1xui32>
  %outside = fuel.index_select %x, %i {dim = 0 : i64} : tensor<2xf32>, tensor<1xui32> -> tensor<1xf32>
  %there = fuel.copy %x to #fuel.device<cuda:0> : tensor<2xf32>
  %a = fuel.const 1.0 : f32 -> tensor<40000xf32>
  %b = fuel.const 2.0 : f32 -> tensor<40000xf32>
  %large = fuel.concat %a, %b {dim = 0 : i64} : tensor<40000xf32>, tensor<40000xf32> -> tensor<80000xf32>
  func.return %outside, %there, %large : tensor<1xf32>, tensor<2xf32>, tensor<80000xf32>
}

// CHECK-LABEL: func.func @identities
// CHECK-NEXT: func.return %x, %x, %x, %x, %x, %x : tensor<2x3xf32>
func.func @identities(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = fuel.permute %x {axes = array<i64: 0, 1>} : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = fuel.slice %x {dim = 0 : i64, start = 0 : i64, length = 2 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = fuel.broadcast_to %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = fuel.cast %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %4 = fuel.concat %x {dim = 0 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  %5 = fuel.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  %6 = fuel.reshape %5 : tensor<6xf32> -> tensor<2x3xf32>
  func.return %0, %1, %2, %3, %4, %6 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// CHECK-LABEL: func.func @reshapes
// CHECK-NEXT: %{{.*}} = fuel.reshape %x : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK-NEXT: %{{.*}} = fuel.flip %x {dim = 0 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT: func.return
func.func @reshapes(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>) {
  %0 = fuel.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  %1 = fuel.reshape %0 : tensor<6xf32> -> tensor<3x2xf32>
  %2 = fuel.flip %x {dim = 0 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %1, %2 : tensor<3x2xf32>, tensor<2x3xf32>
}

// Views of views are one; slices and flips of several dims stand in the order of the dims.
// CHECK-LABEL: func.func @views
// CHECK-NEXT: %[[A:.*]] = fuel.slice %x {dim = 0 : i64, start = 3 : i64, length = 2 : i64} : tensor<9x8xf32> -> tensor<2x8xf32>
// CHECK-NEXT: %[[B:.*]] = fuel.slice %[[A]] {dim = 1 : i64, start = 2 : i64, length = 4 : i64} : tensor<2x8xf32> -> tensor<2x4xf32>
// CHECK-NEXT: %[[C:.*]] = fuel.broadcast_to %y : tensor<1x3xf32> -> tensor<2x2x3xf32>
// CHECK-NEXT: func.return %[[B]], %x, %x, %[[C]], %y
func.func @views(%x: tensor<9x8xf32>, %y: tensor<1x3xf32>) -> (tensor<2x4xf32>, tensor<9x8xf32>, tensor<9x8xf32>, tensor<2x2x3xf32>, tensor<1x3xf32>) {
  %0 = fuel.slice %x {dim = 0 : i64, start = 1 : i64, length = 7 : i64} : tensor<9x8xf32> -> tensor<7x8xf32>
  %1 = fuel.slice %0 {dim = 1 : i64, start = 2 : i64, length = 4 : i64} : tensor<7x8xf32> -> tensor<7x4xf32>
  %2 = fuel.slice %1 {dim = 0 : i64, start = 2 : i64, length = 2 : i64} : tensor<7x4xf32> -> tensor<2x4xf32>
  %3 = fuel.transpose %x : tensor<9x8xf32> -> tensor<8x9xf32>
  %4 = fuel.permute %3 {axes = array<i64: 1, 0>} : tensor<8x9xf32> -> tensor<9x8xf32>
  %5 = fuel.flip %x {dim = 1 : i64} : tensor<9x8xf32> -> tensor<9x8xf32>
  %6 = fuel.flip %5 {dim = 1 : i64} : tensor<9x8xf32> -> tensor<9x8xf32>
  %7 = fuel.broadcast_to %y : tensor<1x3xf32> -> tensor<2x3xf32>
  %8 = fuel.broadcast_to %7 : tensor<2x3xf32> -> tensor<2x2x3xf32>
  %9 = fuel.unsqueeze %y {dim = 0 : i64} : tensor<1x3xf32> -> tensor<1x1x3xf32>
  %10 = fuel.squeeze %9 {dim = 1 : i64} : tensor<1x1x3xf32> -> tensor<1x3xf32>
  func.return %2, %4, %6, %8, %10 : tensor<2x4xf32>, tensor<9x8xf32>, tensor<9x8xf32>, tensor<2x2x3xf32>, tensor<1x3xf32>
}

// A branch of one arm is that arm.
// CHECK-LABEL: func.func @one_arm
// CHECK-NEXT: %[[Y:.*]] = fuel.relu %x : tensor<4xf32>
// CHECK-NEXT: func.return %[[Y]], %x : tensor<4xf32>, tensor<4xf32>
func.func @one_arm(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %z = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.relu %a : tensor<4xf32>
    fuel.yield %0, %a : tensor<4xf32>, tensor<4xf32>
  }
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// Repeated and unread operands go, with the op that made one; the unread result goes too. The arms
// are equal and stay: two ways are two ways.
// CHECK-LABEL: func.func @operands
// CHECK-NEXT: %[[Y:.*]] = fuel.branch "d0"(%[[A:.*]] = %x : tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: arm on #fuel.target<cpu, "numpy"> price 5 {
// CHECK-NEXT: %[[P:.*]] = fuel.add %[[A]], %[[A]] : tensor<4xf32>
// CHECK-NEXT: fuel.yield %[[P]] : tensor<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: arm on #fuel.target<cuda:0, "triton"> price 7 {
// CHECK-NEXT: %[[Q:.*]] = fuel.add %[[A]], %[[A]] : tensor<4xf32>
// CHECK-NEXT: fuel.yield %[[Q]] : tensor<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %[[Y]] : tensor<4xf32>
func.func @operands(%x: tensor<4xf32>) -> tensor<4xf32> {
  %dead = fuel.exp %x : tensor<4xf32>
  %y, %z = fuel.branch "d0"(%a = %x : tensor<4xf32>, %b = %x : tensor<4xf32>, %c = %dead : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  arm on #fuel.target<cpu, "numpy"> price 5 {
    %0 = fuel.add %a, %b : tensor<4xf32>
    %1 = fuel.relu %a : tensor<4xf32>
    fuel.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> price 7 {
    %0 = fuel.add %b, %a : tensor<4xf32>
    fuel.yield %0, %a : tensor<4xf32>, tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// Leaves sink into the arms that read them, and fold there.
// CHECK-LABEL: func.func @sink
// CHECK-NEXT: %[[Y:.*]] = fuel.branch "d0"(%[[A:.*]] = %x : tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT: %[[W:.*]] = fuel.weight "w" : tensor<4xf32>
// CHECK-NEXT: %{{.*}} = fuel.mul %[[A]], %[[W]] : tensor<4xf32>
// CHECK-NEXT: fuel.yield
// CHECK-NEXT: }
// CHECK-NEXT: arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NEXT: %[[C:.*]] = fuel.const 9.000000e+00 : f32 -> tensor<4xf32>
// CHECK-NEXT: %{{.*}} = fuel.mul %[[A]], %[[C]] : tensor<4xf32>
// CHECK-NEXT: fuel.yield
// CHECK-NEXT: }
func.func @sink(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = fuel.weight "w" : tensor<4xf32>
  %c = fuel.const 3.0 : f32 -> tensor<4xf32>
  %y = fuel.branch "d0"(%a = %x : tensor<4xf32>, %b = %w : tensor<4xf32>, %k = %c : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.mul %a, %b : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %0 = fuel.sqr %k : tensor<4xf32>
    %1 = fuel.mul %a, %0 : tensor<4xf32>
    fuel.yield %1 : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// Of a scan, consts and xs may go; carries are results too. A row and a const are not one value.
// CHECK-LABEL: func.func @scan
// CHECK-NEXT: fuel.scan init(%{{.*}} = %h : tensor<4xf32>, %{{.*}} = %h : tensor<4xf32>) xs(%{{.*}} = %x : tensor<4x4xf32>) consts(%{{.*}} = %x : tensor<4x4xf32>) length 4 -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK: fuel.const 5.000000e-01 : f32 -> tensor<4xf32>
func.func @scan(%h: tensor<4xf32>, %x: tensor<4x4xf32>, %u: tensor<4x2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %k = fuel.const 0.5 : f32 -> tensor<4xf32>
  %r, %s = fuel.scan init(%c = %h : tensor<4xf32>, %d = %h : tensor<4xf32>) xs(%row = %x : tensor<4x4xf32>, %none = %u : tensor<4x2xf32>, %again = %x : tensor<4x4xf32>) consts(%m = %x : tensor<4x4xf32>, %half = %k : tensor<4xf32>, %n = %h : tensor<4xf32>) length 4 -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = fuel.mul %c, %half : tensor<4xf32>
    %1 = fuel.sum_dim %m {dim = 0 : i64} : tensor<4x4xf32> -> tensor<4xf32>
    %2 = fuel.add %row, %1 : tensor<4xf32>
    %3 = fuel.add %2, %again : tensor<4xf32>
    %4 = fuel.add %0, %3 : tensor<4xf32>
    fuel.scan_yield carry(%4, %d : tensor<4xf32>, tensor<4xf32>)
  }
  func.return %r, %s : tensor<4xf32>, tensor<4xf32>
}

// An arm equal to work outside keeps its own, through every stock pass.
// ARMS-LABEL: func.func @arms_survive
// ARMS: fuel.softmax_last_dim
// ARMS: fuel.branch "d0"
// ARMS-NEXT: arm on #fuel.target<cpu, "numpy"> price 5 {
// ARMS-NEXT: fuel.softmax_last_dim
// ARMS-NEXT: fuel.yield
// ARMS-NEXT: }
// ARMS-NEXT: arm on #fuel.target<cpu, "other"> price 6 {
// ARMS-NEXT: fuel.softmax_last_dim
// ARMS-NEXT: fuel.yield
// ARMS-NEXT: }
// ARMS-NEXT: fuel.add
func.func @arms_survive(%x: tensor<4xf32>) -> tensor<4xf32> {
  %outside = fuel.softmax_last_dim %x : tensor<4xf32>
  %y = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> price 5 {
    %0 = fuel.softmax_last_dim %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "other"> price 6 {
    %0 = fuel.softmax_last_dim %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  %sum = fuel.add %outside, %y : tensor<4xf32>
  func.return %sum : tensor<4xf32>
}
