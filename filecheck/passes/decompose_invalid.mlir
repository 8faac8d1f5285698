// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-decompose --verify-diagnostics --split-input-file | filecheck %s

// CHECK: transpose: no kernel for (f4E2M1FN) -> f4E2M1FN on cpu/numpy, and no decomposition; numpy serves i1, i8
func.func @packed(%x: tensor<4x8xf4E2M1FN>) -> tensor<8x4xf4E2M1FN> {
  %0 = fuel.transpose %x : tensor<4x8xf4E2M1FN> -> tensor<8x4xf4E2M1FN>
  func.return %0 : tensor<8x4xf4E2M1FN>
}

// -----

// CHECK: neg: pinned to cuda:1, but the targets that may be used are cpu/numpy
func.func @pin(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fuel.neg %x {placement = #fuel.device<cuda:1>} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
