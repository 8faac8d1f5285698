// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.sum_dim %x {dim = 2 : i64} : tensor<2x3xf32> -> tensor<2xf32>
  func.return
}

// CHECK: sum_dim: dim 2 is out of bounds for shape {{\[2, 3\]}}

// -----

func.func @f(%x: tensor<2x3xi1>) {
  %0 = fuel.sum_all %x : tensor<2x3xi1> -> tensor<i1>
  func.return
}

// CHECK: sum_all: unsupported dtype i1

// -----

func.func @f(%x: tensor<2x3xi32>) {
  %0 = fuel.mean_all %x : tensor<2x3xi32> -> tensor<i32>
  func.return
}

// CHECK: mean_all: unsupported dtype i32; it is defined for bf16, f16, f32, f64

// -----

func.func @f(%x: tensor<2x0xf32>) {
  %0 = fuel.max_dim %x {dim = 1 : i64} : tensor<2x0xf32> -> tensor<2xf32>
  func.return
}

// CHECK: max_dim: an empty reduction of {{\[2, 0\]}} has no value

// -----

func.func @f(%x: tensor<0xf32>) {
  %0 = fuel.min_all %x : tensor<0xf32> -> tensor<f32>
  func.return
}

// CHECK: min_all: an empty reduction of {{\[0\]}} has no value

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.argmax_dim %x {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2xi64>
  func.return
}

// CHECK: argmax_dim: gives tensor<2xui32>, not tensor<2xi64>

// -----

func.func @f(%x: tensor<3x4xf32>) {
  %0 = fuel.reduce_sum_to %x : tensor<3x4xf32> -> tensor<3x2xf32>
  func.return
}

// CHECK: reduce_sum_to: {{\[3, 2\]}} is incompatible with {{\[3, 4\]}}

// -----

func.func @f(%x: tensor<0x4xf32>) {
  %0 = fuel.reduce_max_to %x : tensor<0x4xf32> -> tensor<4xf32>
  func.return
}

// CHECK: reduce_max_to: an empty reduction of {{\[0, 4\]}} has no value

// -----

func.func @f(%x: tensor<f32>) {
  %0 = fuel.softmax_last_dim %x : tensor<f32>
  func.return
}

// CHECK: softmax_last_dim: needs rank >= 1, got a rank-0 tensor

// -----

func.func @f(%x: tensor<2x0xf32>) {
  %0 = fuel.rms_norm_last_dim %x {eps = 0.0 : f64} : tensor<2x0xf32>
  func.return
}

// CHECK: rms_norm_last_dim: the last dim of {{\[2, 0\]}} must be > 0

// -----

func.func @f(%x: tensor<2xi8>) {
  %0 = fuel.log_softmax_last_dim %x : tensor<2xi8>
  func.return
}

// CHECK: log_softmax_last_dim: unsupported dtype i8

// -----

func.func @f(%x: tensor<2x3xbf16>, %y: tensor<3x2xf32>) {
  %0 = fuel.matmul %x, %y : tensor<2x3xbf16>, tensor<3x2xf32> -> tensor<2x2xf32>
  func.return
}

// CHECK: matmul: dtype mismatch: bf16 and f32; they must be equal, or f32 and bf16

// -----

func.func @f(%x: tensor<3xf32>, %y: tensor<3x2xf32>) {
  %0 = fuel.matmul %x, %y : tensor<3xf32>, tensor<3x2xf32> -> tensor<2xf32>
  func.return
}

// CHECK: matmul: needs rank >= 2, got {{\[3\] and \[3, 2\]}}

// -----

func.func @f(%x: tensor<1x2x3xf32>, %y: tensor<3x2xf32>) {
  %0 = fuel.matmul %x, %y : tensor<1x2x3xf32>, tensor<3x2xf32> -> tensor<1x2x2xf32>
  func.return
}

// CHECK: matmul: ranks of {{\[1, 2, 3\] and \[3, 2\]}} differ; reshape or broadcast_to one

// -----

func.func @f(%x: tensor<4x2x3xf32>, %y: tensor<3x3x2xf32>) {
  %0 = fuel.matmul %x, %y : tensor<4x2x3xf32>, tensor<3x3x2xf32> -> tensor<4x2x2xf32>
  func.return
}

// CHECK: matmul: batch dim mismatch at dim 0: {{\[4, 2, 3\] and \[3, 3, 2\]}}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x2xf32>) {
  %0 = fuel.matmul %x, %y : tensor<2x3xf32>, tensor<4x2xf32> -> tensor<2x2xf32>
  func.return
}

// CHECK: matmul: inner dim mismatch: 3 of {{\[2, 3\]}} and 4 of {{\[4, 2\]}}

// -----

func.func @f(%x: tensor<2x3xf32>, %i: tensor<2xf32>) {
  %0 = fuel.index_select %x, %i {dim = 0 : i64} : tensor<2x3xf32>, tensor<2xf32> -> tensor<2x3xf32>
  func.return
}

// CHECK: unsupported dtype f32; the op is defined for ui32

// -----

func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x1xui32>) {
  %0 = fuel.index_select %x, %i {dim = 0 : i64} : tensor<2x3xf32>, tensor<2x1xui32> -> tensor<2x3xf32>
  func.return
}

// CHECK: index_select: indices must be rank 1, got {{\[2, 1\]}}

// -----

func.func @f(%x: tensor<2x3xf32>, %i: tensor<2xui32>) {
  %0 = fuel.gather %x, %i {dim = 0 : i64} : tensor<2x3xf32>, tensor<2xui32> -> tensor<2xf32>
  func.return
}

// CHECK: gather: data and indices must have the same rank

// -----

func.func @f(%x: tensor<2x3xf32>, %i: tensor<1x4xui32>) {
  %0 = fuel.gather %x, %i {dim = 0 : i64} : tensor<2x3xf32>, tensor<1x4xui32> -> tensor<1x4xf32>
  func.return
}

// CHECK: gather: indices {{\[1, 4\]}} reach beyond the data {{\[2, 3\]}} at dim 1
