// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// RUN: xdsl-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics --print-op-generic | filecheck %s --check-prefix=GENERIC

// A prepared weight is a result, by name, of a function without arguments.
// CHECK: %c = fuel.weight "c" of @once : tensor<2xf32>
// GENERIC: "fuel.weight"() <{key = "c", source = @once}> : () -> tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %c = fuel.weight "c" of @once : tensor<2xf32>
  func.return %c : tensor<2xf32>
}
func.func private @once() -> (tensor<2xf32> {fuel.name = "c"}) {
  %w = fuel.weight "w" : tensor<2xf32>
  func.return %w : tensor<2xf32>
}

// -----

// CHECK: weight "c" of @none: the module has no function of that name and no arguments
func.func @main() -> tensor<2xf32> {
  %c = fuel.weight "c" of @none : tensor<2xf32>
  func.return %c : tensor<2xf32>
}

// -----

// CHECK: weight "c" of @once: the module has no function of that name and no arguments
func.func @main() -> tensor<2xf32> {
  %c = fuel.weight "c" of @once : tensor<2xf32>
  func.return %c : tensor<2xf32>
}
func.func private @once(%x: tensor<2xf32>) -> (tensor<2xf32> {fuel.name = "c"}) {
  func.return %x : tensor<2xf32>
}

// -----

// CHECK: weight "c" of @once: no result of the function has that fuel.name
func.func @main() -> tensor<2xf32> {
  %c = fuel.weight "c" of @once : tensor<2xf32>
  func.return %c : tensor<2xf32>
}
func.func private @once() -> tensor<2xf32> {
  %w = fuel.weight "w" : tensor<2xf32>
  func.return %w : tensor<2xf32>
}

// -----

// CHECK: weight "c" of @once: the function gives tensor<3xf32>, not tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %c = fuel.weight "c" of @once : tensor<2xf32>
  func.return %c : tensor<2xf32>
}
func.func private @once() -> (tensor<3xf32> {fuel.name = "c"}) {
  %w = fuel.weight "w" : tensor<3xf32>
  func.return %w : tensor<3xf32>
}
