// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP

func.func @indexing(%x: tensor<3x4xf32>, %i: tensor<5xui32>, %p: tensor<2x4xui32>, %n: tensor<0xui32>, %m: tensor<3x1xi1>) {
  %index_select = fuel.index_select %x, %i {dim = 0 : i64} : tensor<3x4xf32>, tensor<5xui32> -> tensor<5x4xf32>
  %none = fuel.index_select %x, %n {dim = 1 : i64} : tensor<3x4xf32>, tensor<0xui32> -> tensor<3x0xf32>
  %mask = fuel.index_select %m, %i {dim = 1 : i64} : tensor<3x1xi1>, tensor<5xui32> -> tensor<3x5xi1>
  %gather = fuel.gather %x, %p {dim = 1 : i64} : tensor<3x4xf32>, tensor<2x4xui32> -> tensor<2x4xf32>
  func.return
}

// CHECK: func.func @indexing(%x: tensor<3x4xf32>, %i: tensor<5xui32>, %p: tensor<2x4xui32>, %n: tensor<0xui32>, %m: tensor<3x1xi1>) {
// CHECK-NEXT:   %index_select = fuel.index_select %x, %i {dim = 0 : i64} : tensor<3x4xf32>, tensor<5xui32> -> tensor<5x4xf32>
// CHECK-NEXT:   %none = fuel.index_select %x, %n {dim = 1 : i64} : tensor<3x4xf32>, tensor<0xui32> -> tensor<3x0xf32>
// CHECK-NEXT:   %mask = fuel.index_select %m, %i {dim = 1 : i64} : tensor<3x1xi1>, tensor<5xui32> -> tensor<3x5xi1>
// CHECK-NEXT:   %gather = fuel.gather %x, %p {dim = 1 : i64} : tensor<3x4xf32>, tensor<2x4xui32> -> tensor<2x4xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// CHECK-GENERIC:   %index_select = "fuel.index_select"(%x, %i) <{dim = 0 : i64}> : (tensor<3x4xf32>, tensor<5xui32>) -> tensor<5x4xf32>
// CHECK-GENERIC:   %none = "fuel.index_select"(%x, %n) <{dim = 1 : i64}> : (tensor<3x4xf32>, tensor<0xui32>) -> tensor<3x0xf32>
// CHECK-GENERIC:   %mask = "fuel.index_select"(%m, %i) <{dim = 1 : i64}> : (tensor<3x1xi1>, tensor<5xui32>) -> tensor<3x5xi1>
// CHECK-GENERIC:   %gather = "fuel.gather"(%x, %p) <{dim = 1 : i64}> : (tensor<3x4xf32>, tensor<2x4xui32>) -> tensor<2x4xf32>
