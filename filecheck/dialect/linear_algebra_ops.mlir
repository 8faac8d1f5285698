// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP

func.func @products(%q: tensor<1x32x1x64xf32>, %k: tensor<1x4x64x9xbf16>, %i: tensor<2x0xi8>, %j: tensor<0x3xi8>, %a: tensor<5x1xi32>, %b: tensor<1x1xi32>, %x: tensor<8x8xf32>) {
  %grouped = fuel.matmul %q, %k : tensor<1x32x1x64xf32>, tensor<1x4x64x9xbf16> -> tensor<1x32x1x9xf32>
  %empty = fuel.matmul %i, %j : tensor<2x0xi8>, tensor<0x3xi8> -> tensor<2x3xi8>
  %ones = fuel.matmul %a, %b : tensor<5x1xi32>, tensor<1x1xi32> -> tensor<5x1xi32>
  %rounded = fuel.matmul %x, %x {allow_tf32} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  func.return
}

// CHECK: func.func @products(%q: tensor<1x32x1x64xf32>, %k: tensor<1x4x64x9xbf16>, %i: tensor<2x0xi8>, %j: tensor<0x3xi8>, %a: tensor<5x1xi32>, %b: tensor<1x1xi32>, %x: tensor<8x8xf32>) {
// CHECK-NEXT:   %grouped = fuel.matmul %q, %k : tensor<1x32x1x64xf32>, tensor<1x4x64x9xbf16> -> tensor<1x32x1x9xf32>
// CHECK-NEXT:   %empty = fuel.matmul %i, %j : tensor<2x0xi8>, tensor<0x3xi8> -> tensor<2x3xi8>
// CHECK-NEXT:   %ones = fuel.matmul %a, %b : tensor<5x1xi32>, tensor<1x1xi32> -> tensor<5x1xi32>
// CHECK-NEXT:   %rounded = fuel.matmul %x, %x {allow_tf32} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// CHECK-GENERIC:   %grouped = "fuel.matmul"(%q, %k) : (tensor<1x32x1x64xf32>, tensor<1x4x64x9xbf16>) -> tensor<1x32x1x9xf32>
// CHECK-GENERIC:   %empty = "fuel.matmul"(%i, %j) : (tensor<2x0xi8>, tensor<0x3xi8>) -> tensor<2x3xi8>
// CHECK-GENERIC:   %ones = "fuel.matmul"(%a, %b) : (tensor<5x1xi32>, tensor<1x1xi32>) -> tensor<5x1xi32>
// CHECK-GENERIC:   %rounded = "fuel.matmul"(%x, %x) <{allow_tf32}> : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
