// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-find-paths | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-find-paths{after="fuel-fork-placements"}' | filecheck %s
// RUN: not xdsl-opt %s -p 'fuel-find-paths{after="fuel-order"}' 2>&1 | filecheck %s --check-prefix=STEP

// STEP: given ('fuel-order',), expected typing.Literal['fuel-fork-variants', 'fuel-fork-placements']

// Without a package that adds pathfinders, nothing is forked (tests/plugin_package has one).
// CHECK-LABEL: @main
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp"(%a = %x : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %0 : tensor<8xf32>
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = fuel.kernel pointwise "exp"(%a = %x : tensor<8xf32>) -> tensor<8xf32> {
    %e = fuel.exp %a : tensor<8xf32>
    fuel.yield %e : tensor<8xf32>
  }
  func.return %0 : tensor<8xf32>
}
