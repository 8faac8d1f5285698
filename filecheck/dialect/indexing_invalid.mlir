// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @f(%x: tensor<3x4xf32>, %i: tensor<5xi32>) {
  %0 = fuel.index_select %x, %i {dim = 0 : i64} : tensor<3x4xf32>, tensor<5xi32> -> tensor<5x4xf32>
  func.return
}

// CHECK: unsupported dtype i32; the op is defined for ui32

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<1x5xui32>) {
  %0 = fuel.index_select %x, %i {dim = 0 : i64} : tensor<3x4xf32>, tensor<1x5xui32> -> tensor<5x4xf32>
  func.return
}

// CHECK: index_select: indices must be rank 1, got {{\[1, 5\]}}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<5xui32>) {
  %0 = fuel.index_select %x, %i {dim = 2 : i64} : tensor<3x4xf32>, tensor<5xui32> -> tensor<3x4xf32>
  func.return
}

// CHECK: index_select: dim 2 is out of bounds for shape {{\[3, 4\]}}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<5xui32>) {
  %0 = fuel.index_select %x, %i {dim = 0 : i64} : tensor<3x4xf32>, tensor<5xui32> -> tensor<4x5xf32>
  func.return
}

// CHECK: index_select: gives tensor<5x4xf32>, not tensor<4x5xf32>

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<4xui32>) {
  %0 = fuel.gather %x, %i {dim = 1 : i64} : tensor<3x4xf32>, tensor<4xui32> -> tensor<4xf32>
  func.return
}

// CHECK: gather: data and indices must have the same rank, got {{\[3, 4\]}} and {{\[4\]}}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<4x4xui32>) {
  %0 = fuel.gather %x, %i {dim = 1 : i64} : tensor<3x4xf32>, tensor<4x4xui32> -> tensor<4x4xf32>
  func.return
}

// CHECK: gather: indices {{\[4, 4\]}} reach beyond the data {{\[3, 4\]}} at dim 0
