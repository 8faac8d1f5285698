// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-order | filecheck %s
// RUN: xdsl-opt %s -p fuel-order,fuel-order | filecheck %s

// The other reader of %x comes before the op that gives %x up.
// CHECK-LABEL: @reader_first
// CHECK-NEXT:    %r = fuel.relu %x
// CHECK-NEXT:    %m = fuel.move %x to #fuel.device<cuda:0>
func.func @reader_first(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %m = fuel.move %x to #fuel.device<cuda:0> : tensor<4xf32>
  %r = fuel.relu %x : tensor<4xf32>
  func.return %m, %r : tensor<4xf32>, tensor<4xf32>
}

// With what it needs, and without disturbing the rest.
// CHECK-LABEL: @with_inputs
// CHECK-NEXT:    %e = fuel.exp %y
// CHECK-NEXT:    %s = fuel.add %x, %e
// CHECK-NEXT:    %m = fuel.move %x to #fuel.device<cuda:0>
// CHECK-NEXT:    %n = fuel.neg %m
func.func @with_inputs(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %m = fuel.move %x to #fuel.device<cuda:0> : tensor<4xf32>
  %n = fuel.neg %m : tensor<4xf32>
  %e = fuel.exp %y : tensor<4xf32>
  %s = fuel.add %x, %e : tensor<4xf32>
  func.return %n, %s : tensor<4xf32>, tensor<4xf32>
}

// A reader that depends on the reuse stays behind it.
// CHECK-LABEL: @cycle
// CHECK-NEXT:    %m = fuel.move
// CHECK-NEXT:    %s = fuel.add %x, %m
func.func @cycle(%x: tensor<4xf32>) -> tensor<4xf32> {
  %m = fuel.move %x to #fuel.device<cuda:0> : tensor<4xf32>
  %s = fuel.add %x, %m : tensor<4xf32>
  func.return %s : tensor<4xf32>
}

// Inside arms too, and a reader in the region of another op counts.
// CHECK-LABEL: @regions
// CHECK:           %k = fuel.kernel pointwise "neg"(%b = %a : tensor<4xf32>) -> tensor<4xf32> {
// CHECK:           %m = fuel.move %a to #fuel.device<cuda:0>
func.func @regions(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %z = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  arm on #fuel.target<cpu, "numpy"> {
    %m = fuel.move %a to #fuel.device<cuda:0> : tensor<4xf32>
    %k = fuel.kernel pointwise "neg"(%b = %a : tensor<4xf32>) -> tensor<4xf32> {
      %0 = fuel.neg %b : tensor<4xf32>
      fuel.yield %0 : tensor<4xf32>
    }
    fuel.yield %m, %k : tensor<4xf32>, tensor<4xf32>
  }
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}
