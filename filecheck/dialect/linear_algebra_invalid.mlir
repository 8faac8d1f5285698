// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @f(%a: tensor<3xf32>, %b: tensor<3x4xf32>) {
  %0 = fuel.matmul %a, %b : tensor<3xf32>, tensor<3x4xf32> -> tensor<4xf32>
  func.return
}

// CHECK: matmul: needs rank >= 2, got {{\[3\]}} and {{\[3, 4\]}}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<1x3x4xf32>) {
  %0 = fuel.matmul %a, %b : tensor<2x3xf32>, tensor<1x3x4xf32> -> tensor<2x4xf32>
  func.return
}

// CHECK: matmul: ranks of {{\[2, 3\]}} and {{\[1, 3, 4\]}} differ; reshape or broadcast_to one

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  %0 = fuel.matmul %a, %b : tensor<2x3xf32>, tensor<4x5xf32> -> tensor<2x5xf32>
  func.return
}

// CHECK: matmul: inner dim mismatch: 3 of {{\[2, 3\]}} and 4 of {{\[4, 5\]}}

// -----

func.func @f(%a: tensor<3x2x4xf32>, %b: tensor<2x4x5xf32>) {
  %0 = fuel.matmul %a, %b : tensor<3x2x4xf32>, tensor<2x4x5xf32> -> tensor<3x2x5xf32>
  func.return
}

// CHECK: matmul: batch dim mismatch at dim 0: {{\[3, 2, 4\]}} and {{\[2, 4, 5\]}}; they must be equal, or the first a multiple of the second

// -----

func.func @f(%a: tensor<2x3xbf16>, %b: tensor<3x4xf32>) {
  %0 = fuel.matmul %a, %b : tensor<2x3xbf16>, tensor<3x4xf32> -> tensor<2x4xf32>
  func.return
}

// CHECK: matmul: dtype mismatch: bf16 and f32; they must be equal, or f32 and bf16

// -----

func.func @f(%a: tensor<2x3xi1>, %b: tensor<3x4xi1>) {
  %0 = fuel.matmul %a, %b : tensor<2x3xi1>, tensor<3x4xi1> -> tensor<2x4xi1>
  func.return
}

// CHECK: matmul: unsupported dtype i1; it is defined for i8, i16, i32, i64, ui8, ui32, bf16, f16, f32, f64

// -----

func.func @f(%a: tensor<2x3xf64>, %b: tensor<3x4xf64>) {
  %0 = fuel.matmul %a, %b {allow_tf32} : tensor<2x3xf64>, tensor<3x4xf64> -> tensor<2x4xf64>
  func.return
}

// CHECK: matmul: allow_tf32 is for products of f32, not of tensor<2x3xf64>

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = fuel.matmul %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<4x2xf32>
  func.return
}

// CHECK: matmul: gives tensor<2x4xf32>, not tensor<4x2xf32>
