// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @f(%x: tensor<3xf32>) {
  %0 = fuel.transpose %x : tensor<3xf32> -> tensor<3xf32>
  func.return
}

// CHECK: transpose: needs rank >= 2, got {{\[3\]}}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.transpose %x : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// CHECK: transpose: gives tensor<3x2xf32>, not tensor<2x3xf32>

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.transpose %x : tensor<2x3xf32> -> tensor<3x2xf64>
  func.return
}

// CHECK: transpose: dtype mismatch: f32 and f64; a view keeps the dtype

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.permute %x {axes = array<i64: 0>} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// CHECK: permute: 1 axes must equal tensor rank 2

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.permute %x {axes = array<i64: 0, 2>} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// CHECK: permute: axis 2 is out of bounds for rank 2

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.permute %x {axes = array<i64: 0, 0>} : tensor<2x3xf32> -> tensor<2x2xf32>
  func.return
}

// CHECK: permute: duplicate axis 0 in {{\[0, 0\]}}

// -----

func.func @f(%x: tensor<3xf32>) {
  %0 = fuel.broadcast_to %x : tensor<3xf32> -> tensor<2x4xf32>
  func.return
}

// CHECK: broadcast_to: {{\[3\]}} is incompatible with {{\[2, 4\]}}: a dim must be equal or 1, got 3 for 4

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.broadcast_to %x : tensor<2x3xf32> -> tensor<3xf32>
  func.return
}

// CHECK: broadcast_to: rank of {{\[2, 3\]}} exceeds rank of {{\[3\]}}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  %0 = fuel.slice %x {dim = 1 : i64, start = 1 : i64, length = 4 : i64} : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return
}

// CHECK: slice: {{\[1, 5\)}} exceeds dim size 4 of dim 1 of {{\[3, 4\]}}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  %0 = fuel.slice %x {dim = 2 : i64, start = 0 : i64, length = 0 : i64} : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return
}

// CHECK: slice: dim 2 is out of bounds for shape {{\[3, 4\]}}

// -----

func.func @f(%x: tensor<4xf32>) {
  %0 = fuel.unsqueeze %x {dim = 2 : i64} : tensor<4xf32> -> tensor<4x1xf32>
  func.return
}

// CHECK: unsqueeze: dim 2 is out of bounds for shape {{\[4\]}}

// -----

func.func @f(%x: tensor<4x1xf32>) {
  %0 = fuel.squeeze %x {dim = 0 : i64} : tensor<4x1xf32> -> tensor<1xf32>
  func.return
}

// CHECK: squeeze: dim 0 of {{\[4, 1\]}} has size 4, expected 1

// -----

func.func @f(%x: tensor<4x1xf32>) {
  %0 = fuel.squeeze %x {dim = 2 : i64} : tensor<4x1xf32> -> tensor<1xf32>
  func.return
}

// CHECK: squeeze: dim 2 is out of bounds

// -----

func.func @f(%x: tensor<4x1xf32>) {
  %0 = fuel.flip %x {dim = -1 : i64} : tensor<4x1xf32> -> tensor<4x1xf32>
  func.return
}

// CHECK: flip: dim -1 is out of bounds for shape {{\[4, 1\]}}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.reshape %x : tensor<2x3xf32> -> tensor<5xf32>
  func.return
}

// CHECK: reshape: element count mismatch: {{\[2, 3\]}} has 6 elements, {{\[5\]}} has 5

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.reshape %x : tensor<2x3xf32> -> tensor<6xi32>
  func.return
}

// CHECK: reshape: dtype mismatch: f32, i32; insert a cast

// -----

func.func @f() {
  %0 = "fuel.concat"() {dim = 0 : i64} : () -> tensor<0xf32>
  func.return
}

// CHECK: concat: needs one operand or more

// -----

func.func @f(%x: tensor<2xf32>, %y: tensor<2x1xf32>) {
  %0 = fuel.concat %x, %y {dim = 0 : i64} : tensor<2xf32>, tensor<2x1xf32> -> tensor<4xf32>
  func.return
}

// CHECK: concat: rank mismatch: {{\[2\], \[2, 1\]}}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) {
  %0 = fuel.concat %x, %y {dim = 1 : i64} : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x7xf32>
  func.return
}

// CHECK: concat: non-dim shapes differ: {{\[2, 3\], \[3, 4\]}} along dim 1

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.concat %x {dim = 2 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// CHECK: concat: dim 2 is out of bounds
