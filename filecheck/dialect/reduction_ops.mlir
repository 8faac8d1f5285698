// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | xdsl-opt | filecheck %s

func.func @reductions(%x: tensor<2x3xf32>, %e: tensor<0x3xi32>) {
  %sum_all = fuel.sum_all %x : tensor<2x3xf32> -> tensor<f32>
  %max_all = fuel.max_all %x : tensor<2x3xf32> -> tensor<f32>
  %min_all = fuel.min_all %x : tensor<2x3xf32> -> tensor<f32>
  %mean_all = fuel.mean_all %x : tensor<2x3xf32> -> tensor<f32>
  %sum_dim = fuel.sum_dim %x {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2xf32>
  %max_dim = fuel.max_dim %x {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2xf32>
  %min_dim = fuel.min_dim %x {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2xf32>
  %mean_dim = fuel.mean_dim %x {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2xf32>
  %argmax_dim = fuel.argmax_dim %x {dim = 0 : i64} : tensor<2x3xf32> -> tensor<3xui32>
  %argmin_dim = fuel.argmin_dim %x {dim = 0 : i64} : tensor<2x3xf32> -> tensor<3xui32>
  %empty_sum = fuel.sum_dim %e {dim = 0 : i64} : tensor<0x3xi32> -> tensor<3xi32>
  %empty_max = fuel.max_dim %e {dim = 1 : i64} : tensor<0x3xi32> -> tensor<0xi32>
  %reduce_sum_to = fuel.reduce_sum_to %x : tensor<2x3xf32> -> tensor<3xf32>
  %reduce_max_to = fuel.reduce_max_to %x : tensor<2x3xf32> -> tensor<2x1xf32>
  func.return
}

// CHECK: func.func @reductions(%x: tensor<2x3xf32>, %e: tensor<0x3xi32>) {
// CHECK-NEXT:   %sum_all = fuel.sum_all %x : tensor<2x3xf32> -> tensor<f32>
// CHECK-NEXT:   %max_all = fuel.max_all %x : tensor<2x3xf32> -> tensor<f32>
// CHECK-NEXT:   %min_all = fuel.min_all %x : tensor<2x3xf32> -> tensor<f32>
// CHECK-NEXT:   %mean_all = fuel.mean_all %x : tensor<2x3xf32> -> tensor<f32>
// CHECK-NEXT:   %sum_dim = fuel.sum_dim %x {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2xf32>
// CHECK-NEXT:   %max_dim = fuel.max_dim %x {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2xf32>
// CHECK-NEXT:   %min_dim = fuel.min_dim %x {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2xf32>
// CHECK-NEXT:   %mean_dim = fuel.mean_dim %x {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2xf32>
// CHECK-NEXT:   %argmax_dim = fuel.argmax_dim %x {dim = 0 : i64} : tensor<2x3xf32> -> tensor<3xui32>
// CHECK-NEXT:   %argmin_dim = fuel.argmin_dim %x {dim = 0 : i64} : tensor<2x3xf32> -> tensor<3xui32>
// CHECK-NEXT:   %empty_sum = fuel.sum_dim %e {dim = 0 : i64} : tensor<0x3xi32> -> tensor<3xi32>
// CHECK-NEXT:   %empty_max = fuel.max_dim %e {dim = 1 : i64} : tensor<0x3xi32> -> tensor<0xi32>
// CHECK-NEXT:   %reduce_sum_to = fuel.reduce_sum_to %x : tensor<2x3xf32> -> tensor<3xf32>
// CHECK-NEXT:   %reduce_max_to = fuel.reduce_max_to %x : tensor<2x3xf32> -> tensor<2x1xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: }
