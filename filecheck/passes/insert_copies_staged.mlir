// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-insert-copies | filecheck %s
// RUN: xdsl-opt %s -p fuel-insert-copies,fuel-insert-copies | filecheck %s

// Between devices without a link a value goes through the host, where others may read it too.
// CHECK: func.func
// CHECK-NEXT: %x_1 = fuel.copy %x to #fuel.device<cpu> planned : tensor<8xf32>
// CHECK-NEXT: %x_2 = fuel.copy %x_1 to #fuel.device<vulkan:0> planned : tensor<8xf32>
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp" on #fuel.target<vulkan:0, "kompute"> (%a = %x_2 : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.exp %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %1 = fuel.kernel pointwise "neg" on #fuel.target<cpu, "numpy"> (%a = %x_1 : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %e = fuel.neg %a : tensor<8xf32>
// CHECK-NEXT: fuel.yield %e : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %1, %0 : tensor<8xf32>, tensor<8xf32>
builtin.module attributes {fuel.topology = #fuel.topology<"both", [#fuel.target<cpu, "numpy">, #fuel.target<cuda:0, "triton">, #fuel.target<vulkan:0, "kompute">]>} {
func.func @main(%x: tensor<8xf32> {fuel.device = #fuel.device<cuda:0>}) -> (tensor<8xf32>, tensor<8xf32> {fuel.device = #fuel.device<vulkan:0>}) {
  %0 = fuel.kernel pointwise "exp" on #fuel.target<vulkan:0, "kompute"> (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
    %e = fuel.exp %a : tensor<8xf32>
    fuel.yield %e : tensor<8xf32>
  }
  %1 = fuel.kernel pointwise "neg" on #fuel.target<cpu, "numpy"> (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
    %e = fuel.neg %a : tensor<8xf32>
    fuel.yield %e : tensor<8xf32>
  }
  func.return %1, %0 : tensor<8xf32>, tensor<8xf32>
}
}
