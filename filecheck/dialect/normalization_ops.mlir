// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP

func.func @rows(%x: tensor<2x3xbf16>, %e: tensor<0x4xf64>) {
  %softmax_last_dim = fuel.softmax_last_dim %x : tensor<2x3xbf16>
  %log_softmax_last_dim = fuel.log_softmax_last_dim %x : tensor<2x3xbf16>
  %layer_norm_last_dim = fuel.layer_norm_last_dim %x {eps = 1.0e-6 : f64} : tensor<2x3xbf16>
  %rms_norm_last_dim = fuel.rms_norm_last_dim %x {eps = 1.0e-6 : f64} : tensor<2x3xbf16>
  %empty = fuel.softmax_last_dim %e : tensor<0x4xf64>
  func.return
}

// CHECK: func.func @rows(%x: tensor<2x3xbf16>, %e: tensor<0x4xf64>) {
// CHECK-NEXT:   %softmax_last_dim = fuel.softmax_last_dim %x : tensor<2x3xbf16>
// CHECK-NEXT:   %log_softmax_last_dim = fuel.log_softmax_last_dim %x : tensor<2x3xbf16>
// CHECK-NEXT:   %layer_norm_last_dim = fuel.layer_norm_last_dim %x {eps = 1.000000e-06 : f64} : tensor<2x3xbf16>
// CHECK-NEXT:   %rms_norm_last_dim = fuel.rms_norm_last_dim %x {eps = 1.000000e-06 : f64} : tensor<2x3xbf16>
// CHECK-NEXT:   %empty = fuel.softmax_last_dim %e : tensor<0x4xf64>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// CHECK-GENERIC:   %softmax_last_dim = "fuel.softmax_last_dim"(%x) : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
// CHECK-GENERIC:   %log_softmax_last_dim = "fuel.log_softmax_last_dim"(%x) : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
// CHECK-GENERIC:   %layer_norm_last_dim = "fuel.layer_norm_last_dim"(%x) <{eps = 1.000000e-06 : f64}> : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
// CHECK-GENERIC:   %rms_norm_last_dim = "fuel.rms_norm_last_dim"(%x) <{eps = 1.000000e-06 : f64}> : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
// CHECK-GENERIC:   %empty = "fuel.softmax_last_dim"(%e) : (tensor<0x4xf64>) -> tensor<0x4xf64>
