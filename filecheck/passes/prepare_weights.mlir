// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-prepare-weights | filecheck %s
// RUN: xdsl-opt %s -p fuel-prepare-weights,fuel-prepare-weights | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-prepare-weights{bytes=64},fuel-prepare-weights{bytes=64}' | filecheck %s --check-prefix=SMALL
// RUN: xdsl-opt %s -p 'fuel-prepare-weights{bytes=0}' | filecheck %s --check-prefix=NONE
// RUN: xdsl-opt %s -p fuel-prepare-weights,fuel-strip-plan,canonicalize,cse | filecheck %s --check-prefix=BACK
// RUN: not xdsl-opt %s -p 'fuel-prepare-weights{bytes=-1}' 2>&1 | filecheck %s --check-prefix=LESS
// LESS: fuel-prepare-weights: bytes must be >= 0, got -1
// NONE-NOT: fuel.prepares

// A cast of a weight runs once; what depends on an argument stays.
// CHECK-LABEL: @main(
// CHECK-NEXT:    %c = fuel.weight "main.c" of @main.weights : tensor<8x8xf32>
// CHECK-NEXT:    %d = fuel.weight "main.d" of @main.weights : tensor<4x4xf32>
// CHECK-NEXT:    %p = fuel.kernel matmul
// CHECK:       func.func private @main.weights() -> (tensor<8x8xf32> {fuel.name = "main.c"}, tensor<4x4xf32> {fuel.name = "main.d"}) attributes {fuel.prepares} {
// CHECK-NEXT:    %w = fuel.weight "w" : tensor<8x8xbf16>
// CHECK-NEXT:    %c = fuel.kernel pointwise "cast"
// CHECK:         func.return %c, %d : tensor<8x8xf32>, tensor<4x4xf32>

// Within 64 bytes the larger one does not fit, the second time no more than the first.
// SMALL-LABEL: @main(
// SMALL:         fuel.kernel pointwise "cast"
// SMALL:         fuel.weight "main.d" of @main.weights : tensor<4x4xf32>
// SMALL:       @main.weights() -> (tensor<4x4xf32> {fuel.name = "main.d"})
// SMALL-NOT:   @main.weights.1

// BACK-LABEL: @main(
// BACK-NEXT:    %w = fuel.weight "w" : tensor<8x8xbf16>
// BACK-NEXT:    %c = fuel.cast %w : tensor<8x8xbf16> -> tensor<8x8xf32>
// BACK-NEXT:    %v = fuel.weight "v" : tensor<4x4xbf16>
// BACK-NEXT:    %d = fuel.cast %v : tensor<4x4xbf16> -> tensor<4x4xf32>
// BACK-NEXT:    %p = fuel.matmul
// BACK-NOT:     @main.weights
func.func @main(%x: tensor<1x8xf32>, %y: tensor<4x4xf32>) -> (tensor<1x8xf32>, tensor<4x4xf32>) {
  %w = fuel.weight "w" : tensor<8x8xbf16>
  %c = fuel.cast %w : tensor<8x8xbf16> -> tensor<8x8xf32>
  %p = fuel.matmul %x, %c : tensor<1x8xf32>, tensor<8x8xf32> -> tensor<1x8xf32>
  %v = fuel.weight "v" : tensor<4x4xbf16>
  %d = fuel.cast %v : tensor<4x4xbf16> -> tensor<4x4xf32>
  %z = fuel.matmul %y, %d : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  func.return %p, %z : tensor<1x8xf32>, tensor<4x4xf32>
}

// Nothing is read by what depends on an argument: everything stays where it is.
// CHECK-LABEL: @fixed
// CHECK-NEXT:    %v = fuel.weight "v"
// CHECK-NEXT:    %d = fuel.kernel pointwise
func.func @fixed() -> tensor<4x4xf32> {
  %v = fuel.weight "v" : tensor<4x4xbf16>
  %d = fuel.cast %v : tensor<4x4xbf16> -> tensor<4x4xf32>
  func.return %d : tensor<4x4xf32>
}
