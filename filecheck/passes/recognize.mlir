// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-recognize | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-recognize,fuel-recognize' | filecheck %s

// Without a package that adds patterns, the program stays as it is (tests/plugin_package has some).
// CHECK-LABEL: @main
// CHECK-NEXT: %r = fuel.relu %x : tensor<8xf32>
// CHECK-NEXT: %s = fuel.sqr %r : tensor<8xf32>
// CHECK-NEXT: func.return %s : tensor<8xf32>
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = fuel.relu %x : tensor<8xf32>
  %s = fuel.sqr %r : tensor<8xf32>
  func.return %s : tensor<8xf32>
}
