// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-unroll-scan | filecheck %s
// RUN: xdsl-opt %s -p fuel-unroll-scan,fuel-unroll-scan | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-unroll-scan{max-length=1}' | filecheck %s --check-prefix=SHORT
// RUN: not xdsl-opt %s -p 'fuel-unroll-scan{max-length=-1}' 2>&1 | filecheck %s --check-prefix=NEGATIVE

// NEGATIVE: fuel-unroll-scan: max-length must be >= 0, got -1

// One copy of the body per step; constants once; the rows of ys joined by one concat.
// SHORT: length 2
// CHECK-LABEL: @steps
// CHECK-NEXT:    %two = fuel.const 2.000000e+00 : f32 -> tensor<4xf32>
// CHECK-NEXT:    %0 = fuel.slice %x {dim = 0 : i64, start = 0 : i64, length = 1 : i64} : tensor<2x4xf32> -> tensor<1x4xf32>
// CHECK-NEXT:    %1 = fuel.squeeze %0 {dim = 0 : i64} : tensor<1x4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %2 = fuel.mul %h, %k : tensor<4xf32>
// CHECK-NEXT:    %3 = fuel.add %2, %1 : tensor<4xf32>
// CHECK-NEXT:    %4 = fuel.mul %3, %two : tensor<4xf32>
// CHECK-NEXT:    %5 = fuel.unsqueeze %4 {dim = 0 : i64} : tensor<4xf32> -> tensor<1x4xf32>
// CHECK-NEXT:    %6 = fuel.slice %x {dim = 0 : i64, start = 1 : i64, length = 1 : i64} : tensor<2x4xf32> -> tensor<1x4xf32>
// CHECK-NEXT:    %7 = fuel.squeeze %6 {dim = 0 : i64} : tensor<1x4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %8 = fuel.mul %3, %k : tensor<4xf32>
// CHECK-NEXT:    %c = fuel.add %8, %7 : tensor<4xf32>
// CHECK-NEXT:    %9 = fuel.mul %c, %two : tensor<4xf32>
// CHECK-NEXT:    %10 = fuel.unsqueeze %9 {dim = 0 : i64} : tensor<4xf32> -> tensor<1x4xf32>
// CHECK-NEXT:    %ys = fuel.concat %5, %10 {dim = 0 : i64} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<2x4xf32>
// CHECK-NEXT:    func.return %c, %ys : tensor<4xf32>, tensor<2x4xf32>
func.func @steps(%x: tensor<2x4xf32>, %h: tensor<4xf32>, %k: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>) {
  %c, %ys = fuel.scan init(%s = %h : tensor<4xf32>) xs(%r = %x : tensor<2x4xf32>) consts(%g = %k : tensor<4xf32>) length 2 -> (tensor<4xf32>, tensor<2x4xf32>) {
    %two = fuel.const 2.0 : f32 -> tensor<4xf32>
    %0 = fuel.mul %s, %g : tensor<4xf32>
    %1 = fuel.add %0, %r : tensor<4xf32>
    %2 = fuel.mul %1, %two : tensor<4xf32>
    fuel.scan_yield carry(%1 : tensor<4xf32>) ys(%2 : tensor<4xf32>)
  }
  func.return %c, %ys : tensor<4xf32>, tensor<2x4xf32>
}

// In reverse the last row is first, and ys still lie as xs do.
// SHORT: length 2 reverse
// CHECK-LABEL: @reverse
// CHECK-NEXT:    %0 = fuel.slice %x {dim = 0 : i64, start = 1 : i64, length = 1 : i64} : tensor<2xf32> -> tensor<1xf32>
// CHECK-NEXT:    %1 = fuel.squeeze %0 {dim = 0 : i64} : tensor<1xf32> -> tensor<f32>
// CHECK-NEXT:    %2 = fuel.add %h, %1 : tensor<f32>
// CHECK-NEXT:    %3 = fuel.unsqueeze %2 {dim = 0 : i64} : tensor<f32> -> tensor<1xf32>
// CHECK-NEXT:    %4 = fuel.slice %x {dim = 0 : i64, start = 0 : i64, length = 1 : i64} : tensor<2xf32> -> tensor<1xf32>
// CHECK-NEXT:    %5 = fuel.squeeze %4 {dim = 0 : i64} : tensor<1xf32> -> tensor<f32>
// CHECK-NEXT:    %c = fuel.add %2, %5 : tensor<f32>
// CHECK-NEXT:    %6 = fuel.unsqueeze %c {dim = 0 : i64} : tensor<f32> -> tensor<1xf32>
// CHECK-NEXT:    %ys = fuel.concat %6, %3 {dim = 0 : i64} : tensor<1xf32>, tensor<1xf32> -> tensor<2xf32>
// CHECK-NEXT:    func.return %ys : tensor<2xf32>
func.func @reverse(%x: tensor<2xf32>, %h: tensor<f32>) -> tensor<2xf32> {
  %c, %ys = fuel.scan init(%s = %h : tensor<f32>) xs(%r = %x : tensor<2xf32>) length 2 reverse -> (tensor<f32>, tensor<2xf32>) {
    %0 = fuel.add %s, %r : tensor<f32>
    fuel.scan_yield carry(%0 : tensor<f32>) ys(%0 : tensor<f32>)
  }
  func.return %ys : tensor<2xf32>
}

// No step, and one step.
// SHORT-NOT: = fuel.scan
// SHORT: func.func @until
// CHECK-LABEL: @short
// CHECK-NEXT:    %ys = fuel.const 0.000000e+00 : f32 -> tensor<0xf32>
// CHECK-NEXT:    %d = fuel.neg %h : tensor<f32>
// CHECK-NEXT:    %zs = fuel.unsqueeze %d {dim = 0 : i64} : tensor<f32> -> tensor<1xf32>
// CHECK-NEXT:    func.return %d, %ys, %zs : tensor<f32>, tensor<0xf32>, tensor<1xf32>
func.func @short(%h: tensor<f32>) -> (tensor<f32>, tensor<0xf32>, tensor<1xf32>) {
  %c, %ys = fuel.scan init(%s = %h : tensor<f32>) length 0 -> (tensor<f32>, tensor<0xf32>) {
    %0 = fuel.neg %s : tensor<f32>
    fuel.scan_yield carry(%0 : tensor<f32>) ys(%0 : tensor<f32>)
  }
  %d, %zs = fuel.scan init(%s = %c : tensor<f32>) length 1 -> (tensor<f32>, tensor<1xf32>) {
    %0 = fuel.neg %s : tensor<f32>
    fuel.scan_yield carry(%0 : tensor<f32>) ys(%0 : tensor<f32>)
  }
  func.return %d, %ys, %zs : tensor<f32>, tensor<0xf32>, tensor<1xf32>
}

// An early end becomes masks: the first step is always done.
// CHECK-LABEL: @until
// CHECK-NEXT:    %0 = fuel.sqr %h : tensor<2xf32>
// CHECK-NEXT:    %1 = fuel.sum_all %0 : tensor<2xf32> -> tensor<f32>
// CHECK-NEXT:    %2 = fuel.gt %1, %bound : tensor<f32> -> tensor<i1>
// CHECK-NEXT:    %3 = fuel.unsqueeze %h {dim = 0 : i64} : tensor<2xf32> -> tensor<1x2xf32>
// CHECK-NEXT:    %4 = fuel.const 1 : ui32 -> tensor<ui32>
// CHECK-NEXT:    %5 = fuel.const false -> tensor<i1>
// CHECK-NEXT:    %6 = fuel.eq %2, %5 : tensor<i1> -> tensor<i1>
// CHECK-NEXT:    %7 = fuel.sqr %0 : tensor<2xf32>
// CHECK-NEXT:    %8 = fuel.sum_all %7 : tensor<2xf32> -> tensor<f32>
// CHECK-NEXT:    %9 = fuel.gt %8, %bound : tensor<f32> -> tensor<i1>
// CHECK-NEXT:    %10 = fuel.broadcast_to %6 : tensor<i1> -> tensor<2xi1>
// CHECK-NEXT:    %c = fuel.where %10, %7, %0 : tensor<2xi1>, tensor<2xf32>
// CHECK-NEXT:    %11 = fuel.const 0.000000e+00 : f32 -> tensor<2xf32>
// CHECK-NEXT:    %12 = fuel.broadcast_to %6 : tensor<i1> -> tensor<2xi1>
// CHECK-NEXT:    %13 = fuel.where %12, %0, %11 : tensor<2xi1>, tensor<2xf32>
// CHECK-NEXT:    %14 = fuel.unsqueeze %13 {dim = 0 : i64} : tensor<2xf32> -> tensor<1x2xf32>
// CHECK-NEXT:    %15 = fuel.cast %6 : tensor<i1> -> tensor<ui32>
// CHECK-NEXT:    %n = fuel.add %4, %15 : tensor<ui32>
// CHECK-NEXT:    %16 = fuel.const false -> tensor<i1>
// CHECK-NEXT:    %17 = fuel.eq %9, %16 : tensor<i1> -> tensor<i1>
// CHECK-NEXT:    %18 = fuel.minimum %6, %17 : tensor<i1>
// CHECK-NEXT:    %ys = fuel.concat %3, %14 {dim = 0 : i64} : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<2x2xf32>
// CHECK-NEXT:    func.return %c, %ys, %n : tensor<2xf32>, tensor<2x2xf32>, tensor<ui32>
func.func @until(%h: tensor<2xf32>, %bound: tensor<f32>) -> (tensor<2xf32>, tensor<2x2xf32>, tensor<ui32>) {
  %c, %ys, %n = fuel.scan init(%s = %h : tensor<2xf32>) consts(%b = %bound : tensor<f32>) length 2 -> (tensor<2xf32>, tensor<2x2xf32>, tensor<ui32>) {
    %0 = fuel.sqr %s : tensor<2xf32>
    %1 = fuel.sum_all %0 : tensor<2xf32> -> tensor<f32>
    %2 = fuel.gt %1, %b : tensor<f32> -> tensor<i1>
    fuel.scan_yield carry(%0 : tensor<2xf32>) ys(%s : tensor<2xf32>) until %2 : tensor<i1>
  }
  func.return %c, %ys, %n : tensor<2xf32>, tensor<2x2xf32>, tensor<ui32>
}
