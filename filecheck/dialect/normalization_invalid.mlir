// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @f(%x: tensor<f32>) {
  %0 = fuel.softmax_last_dim %x : tensor<f32>
  func.return
}

// CHECK: softmax_last_dim: needs rank >= 1, got a rank-0 tensor

// -----

func.func @f(%x: tensor<2x3xi32>) {
  %0 = fuel.log_softmax_last_dim %x : tensor<2x3xi32>
  func.return
}

// CHECK: log_softmax_last_dim: unsupported dtype i32; it is defined for bf16, f16, f32, f64

// -----

func.func @f(%x: tensor<2x0xf32>) {
  %0 = fuel.rms_norm_last_dim %x {eps = 1.0e-6 : f64} : tensor<2x0xf32>
  func.return
}

// CHECK: rms_norm_last_dim: the last dim of {{\[2, 0\]}} must be > 0

// -----

func.func @f(%x: tensor<2x0xf32>) {
  %0 = fuel.layer_norm_last_dim %x {eps = 1.0e-6 : f64} : tensor<2x0xf32>
  func.return
}

// CHECK: layer_norm_last_dim: the last dim of {{\[2, 0\]}} must be > 0

// -----

func.func @f(%x: tensor<2x3xf32>) {
  %0 = fuel.rms_norm_last_dim %x : tensor<2x3xf32>
  func.return
}

// CHECK: property 'eps' expected in operation 'fuel.rms_norm_last_dim'
