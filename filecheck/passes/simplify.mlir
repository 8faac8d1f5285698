// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt -p fuel-simplify %s | filecheck %s
// RUN: xdsl-opt -p fuel-simplify,fuel-simplify %s | filecheck %s

// Constants fold, what is computed twice is computed once, and what nobody reads goes. What
// merging shows (both operands of the sum are one) is seen too.

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = fuel.const 2.0 : f32 -> tensor<4xf32>
  %three = fuel.const 3.0 : f32 -> tensor<4xf32>
  %six = fuel.mul %two, %three : tensor<4xf32>
  %a = fuel.mul %x, %six : tensor<4xf32>
  %b = fuel.mul %x, %six : tensor<4xf32>
  %unread = fuel.exp %b : tensor<4xf32>
  %sum = fuel.add %a, %b : tensor<4xf32>
  func.return %sum : tensor<4xf32>
}

// CHECK:      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:   %six = fuel.const 6.000000e+00 : f32 -> tensor<4xf32>
// CHECK-NEXT:   %a = fuel.mul %x, %six : tensor<4xf32>
// CHECK-NEXT:   %sum = fuel.add %a, %a : tensor<4xf32>
// CHECK-NEXT:   func.return %sum : tensor<4xf32>
// CHECK-NEXT: }
