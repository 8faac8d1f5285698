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
