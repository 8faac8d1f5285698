// SPDX-License-Identifier: MIT OR Apache-2.0
// The stock xdsl-opt finds the dialect, the passes and the targets of fuel.

// RUN: xdsl-opt --version | filecheck %s --check-prefix=VERSION
// RUN: env COLUMNS=9999 xdsl-opt --help | filecheck %s --check-prefix=HELP
// RUN: xdsl-opt %s | filecheck %s

// VERSION: 0.75.

// HELP-DAG: fuel-optimize
// HELP-DAG: fuel-kompute
// HELP-DAG: fuel-numpy

// CHECK:      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:   %y = fuel.relu %x : tensor<4xf32>
// CHECK-NEXT:   func.return %y : tensor<4xf32>
// CHECK-NEXT: }
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = fuel.relu %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
