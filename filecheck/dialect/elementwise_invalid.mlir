// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @f(%x: tensor<2x3xf32>, %y: tensor<3xf32>) {
  %0 = "fuel.add"(%x, %y) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK: add: shape mismatch: [2, 3], [3]; insert a broadcast_to

// -----

func.func @f(%x: tensor<2xf32>) {
  %0 = "fuel.lt"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xi1>
  func.return
}

// CHECK: lt: gives tensor<2xi1>, not tensor<3xi1>

// -----

func.func @f(%x: tensor<2xi32>) {
  %0 = fuel.exp %x : tensor<2xi32>
  func.return
}

// CHECK: exp: unsupported dtype i32; it is defined for bf16, f16, f32, f64

// -----

func.func @f(%x: tensor<2xi1>) {
  %0 = fuel.add %x, %x : tensor<2xi1>
  func.return
}

// CHECK: add: unsupported dtype i1; it is defined for i8, i16, i32, i64, ui8, ui32, bf16, f16, f32, f64

// -----

func.func @f(%x: tensor<?xf32>) {
  %0 = fuel.neg %x : tensor<?xf32>
  func.return
}

// CHECK: tensor<?xf32> has a dynamic extent; fuel tensors are static: use a capacity and a count held in a tensor<ui32>

// -----

func.func @f(%x: tensor<2xi7>) {
  %0 = fuel.neg %x : tensor<2xi7>
  func.return
}

// CHECK: i7 is not an element type of fuel

// -----

func.func @f(%x: f32) {
  %0 = fuel.neg %x : f32
  func.return
}

// CHECK: expected a tensor, got f32

// -----

func.func @f(%x: tensor<2xf32>) {
  %0 = fuel.clamp %x {min = 2.0 : f64, max = 1.0 : f64} : tensor<2xf32>
  func.return
}

// CHECK: clamp: min 2.0 must be <= max 1.0

// -----

func.func @f(%x: tensor<2xf32>) {
  %0 = fuel.clamp %x {min = 0x7FF8000000000000 : f64, max = 1.0 : f64} : tensor<2xf32>
  func.return
}

// CHECK: clamp: min nan must be <= max 1.0

// -----

func.func @f(%c: tensor<2xui8>, %x: tensor<2xf32>) {
  %0 = fuel.where %c, %x, %x : tensor<2xui8>, tensor<2xf32>
  func.return
}

// CHECK: where: the condition must be i1, got ui8

// -----

func.func @f(%c: tensor<3xi1>, %x: tensor<2xf32>) {
  %0 = fuel.where %c, %x, %x : tensor<3xi1>, tensor<2xf32>
  func.return
}

// CHECK: where: shape mismatch: {{\[3\], \[2\], \[2\]}}; insert a broadcast_to

// -----

func.func @f(%m: tensor<2xi8>, %x: tensor<2xf32>) {
  %0 = fuel.masked_fill %x, %m {value = 0.0 : f32} : tensor<2xf32>, tensor<2xi8>
  func.return
}

// CHECK: masked_fill: the mask must be i1, got i8

// -----

func.func @f(%m: tensor<2xi1>, %x: tensor<2xf4E2M1FN>) {
  %0 = fuel.masked_fill %x, %m {value = 0.0 : f32} : tensor<2xf4E2M1FN>, tensor<2xi1>
  func.return
}

// CHECK: masked_fill: unsupported dtype f4E2M1FN

// -----

func.func @f(%m: tensor<2xi1>, %x: tensor<2xf32>) {
  %0 = fuel.masked_fill %x, %m {value = 0.0 : f64} : tensor<2xf32>, tensor<2xi1>
  func.return
}

// CHECK: masked_fill: the value 0.000000e+00 : f64 must have the dtype f32 of x

// -----

func.func @f(%x: tensor<2xf32>) {
  %0 = fuel.cast %x : tensor<2xf32> -> tensor<3xf64>
  func.return
}

// CHECK: cast: shape mismatch: {{\[2\], \[3\]}}

// -----

func.func @f(%x: tensor<2xf32>) {
  %0 = fuel.cast %x : tensor<2xf32> -> tensor<2xf6E2M3FN>
  func.return
}

// CHECK: cast: unsupported dtype f6E2M3FN

// -----

func.func @f(%x: tensor<2xf32>) {
  %0 = fuel.add_scalar %x : tensor<2xf32>
  func.return
}

// CHECK: add_scalar
