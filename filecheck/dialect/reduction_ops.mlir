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

func.func @rows(%x: tensor<2x3xbf16>) {
  %softmax_last_dim = fuel.softmax_last_dim %x : tensor<2x3xbf16>
  %log_softmax_last_dim = fuel.log_softmax_last_dim %x : tensor<2x3xbf16>
  %layer_norm_last_dim = fuel.layer_norm_last_dim %x {eps = 1.0e-6 : f64} : tensor<2x3xbf16>
  %rms_norm_last_dim = fuel.rms_norm_last_dim %x {eps = 1.0e-6 : f64} : tensor<2x3xbf16>
  func.return
}

func.func @products(%q: tensor<1x32x1x64xf32>, %k: tensor<1x4x64x9xbf16>, %i: tensor<2x0xi8>, %j: tensor<0x3xi8>) {
  %grouped = fuel.matmul %q, %k : tensor<1x32x1x64xf32>, tensor<1x4x64x9xbf16> -> tensor<1x32x1x9xf32>
  %empty = fuel.matmul %i, %j : tensor<2x0xi8>, tensor<0x3xi8> -> tensor<2x3xi8>
  func.return
}

func.func @indexing(%x: tensor<3x4xf32>, %i: tensor<5xui32>, %p: tensor<2x4xui32>) {
  %index_select = fuel.index_select %x, %i {dim = 0 : i64} : tensor<3x4xf32>, tensor<5xui32> -> tensor<5x4xf32>
  %gather = fuel.gather %x, %p {dim = 1 : i64} : tensor<3x4xf32>, tensor<2x4xui32> -> tensor<2x4xf32>
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
// CHECK-NEXT: func.func @rows(%x: tensor<2x3xbf16>) {
// CHECK-NEXT:   %softmax_last_dim = fuel.softmax_last_dim %x : tensor<2x3xbf16>
// CHECK-NEXT:   %log_softmax_last_dim = fuel.log_softmax_last_dim %x : tensor<2x3xbf16>
// CHECK-NEXT:   %layer_norm_last_dim = fuel.layer_norm_last_dim %x {eps = 1.000000e-06 : f64} : tensor<2x3xbf16>
// CHECK-NEXT:   %rms_norm_last_dim = fuel.rms_norm_last_dim %x {eps = 1.000000e-06 : f64} : tensor<2x3xbf16>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @products(%q: tensor<1x32x1x64xf32>, %k: tensor<1x4x64x9xbf16>, %i: tensor<2x0xi8>, %j: tensor<0x3xi8>) {
// CHECK-NEXT:   %grouped = fuel.matmul %q, %k : tensor<1x32x1x64xf32>, tensor<1x4x64x9xbf16> -> tensor<1x32x1x9xf32>
// CHECK-NEXT:   %empty = fuel.matmul %i, %j : tensor<2x0xi8>, tensor<0x3xi8> -> tensor<2x3xi8>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @indexing(%x: tensor<3x4xf32>, %i: tensor<5xui32>, %p: tensor<2x4xui32>) {
// CHECK-NEXT:   %index_select = fuel.index_select %x, %i {dim = 0 : i64} : tensor<3x4xf32>, tensor<5xui32> -> tensor<5x4xf32>
// CHECK-NEXT:   %gather = fuel.gather %x, %p {dim = 1 : i64} : tensor<3x4xf32>, tensor<2x4xui32> -> tensor<2x4xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: }
