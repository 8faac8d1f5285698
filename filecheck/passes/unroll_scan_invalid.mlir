// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-unroll-scan --verify-diagnostics --split-input-file | filecheck %s

// CHECK: fuel-unroll-scan: a scan with until whose body holds gather cannot be unrolled: steps after the end would use indices too, maybe out of range
func.func @index(%x: tensor<4xf32>, %i: tensor<2x1xui32>) -> tensor<1xf32> {
  %z = fuel.const 0.0 : f32 -> tensor<1xf32>
  %c, %n = fuel.scan init(%s = %z : tensor<1xf32>) xs(%r = %i : tensor<2x1xui32>) consts(%k = %x : tensor<4xf32>) length 2 -> (tensor<1xf32>, tensor<ui32>) {
    %0 = fuel.gather %k, %r {dim = 0 : i64} : tensor<4xf32>, tensor<1xui32> -> tensor<1xf32>
    %p = fuel.gt %0, %s : tensor<1xf32> -> tensor<1xi1>
    fuel.scan_yield carry(%0 : tensor<1xf32>) until %p : tensor<1xi1>
  }
  func.return %c : tensor<1xf32>
}

// -----

// CHECK: fuel-unroll-scan: a scan with until is unrolled by selecting carries and ys, but f8E5M2 cannot be selected
func.func @storage(%h: tensor<f8E5M2>, %p: tensor<i1>) -> tensor<f8E5M2> {
  %c, %n = fuel.scan init(%s = %h : tensor<f8E5M2>) consts(%q = %p : tensor<i1>) length 2 -> (tensor<f8E5M2>, tensor<ui32>) {
    fuel.scan_yield carry(%s : tensor<f8E5M2>) until %q : tensor<i1>
  }
  func.return %c : tensor<f8E5M2>
}
