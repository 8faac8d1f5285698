// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | xdsl-opt | filecheck %s

func.func @views(%x: tensor<2x3x4xf32>, %o: tensor<1xi8>, %e: tensor<0x3xf32>) {
  %transpose = fuel.transpose %x : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
  %permute = fuel.permute %x {axes = array<i64: 2, 0, 1>} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %broadcast_to = fuel.broadcast_to %o : tensor<1xi8> -> tensor<2x0xi8>
  %slice = fuel.slice %x {dim = 1 : i64, start = 1 : i64, length = 2 : i64} : tensor<2x3x4xf32> -> tensor<2x2x4xf32>
  %unsqueeze = fuel.unsqueeze %e {dim = 2 : i64} : tensor<0x3xf32> -> tensor<0x3x1xf32>
  %squeeze = fuel.squeeze %o {dim = 0 : i64} : tensor<1xi8> -> tensor<i8>
  %flip = fuel.flip %e {dim = 0 : i64} : tensor<0x3xf32> -> tensor<0x3xf32>
  func.return
}

func.func @copies(%x: tensor<2x3xf8E5M2>, %y: tensor<2x1xf8E5M2>) {
  %reshape = fuel.reshape %x : tensor<2x3xf8E5M2> -> tensor<6x1xf8E5M2>
  %contiguize = fuel.contiguize %x : tensor<2x3xf8E5M2>
  %concat = fuel.concat %x, %y, %x {dim = 1 : i64} : tensor<2x3xf8E5M2>, tensor<2x1xf8E5M2>, tensor<2x3xf8E5M2> -> tensor<2x7xf8E5M2>
  func.return
}

// CHECK: func.func @views(%x: tensor<2x3x4xf32>, %o: tensor<1xi8>, %e: tensor<0x3xf32>) {
// CHECK-NEXT:   %transpose = fuel.transpose %x : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
// CHECK-NEXT:   %permute = fuel.permute %x {axes = array<i64: 2, 0, 1>} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
// CHECK-NEXT:   %broadcast_to = fuel.broadcast_to %o : tensor<1xi8> -> tensor<2x0xi8>
// CHECK-NEXT:   %slice = fuel.slice %x {dim = 1 : i64, start = 1 : i64, length = 2 : i64} : tensor<2x3x4xf32> -> tensor<2x2x4xf32>
// CHECK-NEXT:   %unsqueeze = fuel.unsqueeze %e {dim = 2 : i64} : tensor<0x3xf32> -> tensor<0x3x1xf32>
// CHECK-NEXT:   %squeeze = fuel.squeeze %o {dim = 0 : i64} : tensor<1xi8> -> tensor<i8>
// CHECK-NEXT:   %flip = fuel.flip %e {dim = 0 : i64} : tensor<0x3xf32> -> tensor<0x3xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @copies(%x: tensor<2x3xf8E5M2>, %y: tensor<2x1xf8E5M2>) {
// CHECK-NEXT:   %reshape = fuel.reshape %x : tensor<2x3xf8E5M2> -> tensor<6x1xf8E5M2>
// CHECK-NEXT:   %contiguize = fuel.contiguize %x : tensor<2x3xf8E5M2>
// CHECK-NEXT:   %concat = fuel.concat %x, %y, %x {dim = 1 : i64} : tensor<2x3xf8E5M2>, tensor<2x1xf8E5M2>, tensor<2x3xf8E5M2> -> tensor<2x7xf8E5M2>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: }
