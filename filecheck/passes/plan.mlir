// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p 'fuel-plan{topology="cpu+h100"}' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-plan{topology=cpu-h100}' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-plan{topology="cpu+h100"},fuel-plan{topology="cpu+h100"}' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-plan{topology="cpu+h100" device="cpu"}' | filecheck %s --check-prefix=HOST
// RUN: not xdsl-opt %s -p 'fuel-plan{topology="cpu"}' 2>&1 | filecheck %s --check-prefix=PIN
// RUN: xdsl-opt %s -p 'fuel-plan{topology="cpu+h100"},fuel-strip-plan' | filecheck %s --check-prefix=STRIP
// RUN: not xdsl-opt %s -p 'fuel-plan{topology="cpu+h100" device="tpu"}' 2>&1 | filecheck %s --check-prefix=DEVICE

// HOST-NOT: on #fuel.target
// STRIP-NOT: fuel.plan
// PIN: fuel.kernel is pinned to cuda:0, which the topology lacks; it has cpu/numpy
// DEVICE: fuel-plan: device tpu:0 is not in topology 'cpu+h100'; it has cpu/numpy, cuda:0/triton

// CHECK: builtin.module attributes {fuel.plan = "{{[0-9a-f]+}}"}

// A product pays for its transfers; what feeds it goes with it.
// CHECK-LABEL: @heavy
// CHECK-NEXT: %0 = fuel.kernel pointwise "relu" on #fuel.target<cuda:0, "triton"> (%x_1 = %x : tensor<512x512xf32>) -> tensor<512x512xf32> {
// CHECK-NEXT: %1 = fuel.relu %x_1 : tensor<512x512xf32>
// CHECK-NEXT: fuel.yield %1 : tensor<512x512xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %1 = fuel.kernel matmul "matmul" on #fuel.target<cuda:0, "triton"> (%2 = %0 : tensor<512x512xf32>, %w_1 = %w : tensor<512x512xf32>) -> tensor<512x512xf32> {
// CHECK-NEXT: %3 = fuel.matmul %2, %w_1 : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
// CHECK-NEXT: fuel.yield %3 : tensor<512x512xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %1 : tensor<512x512xf32>
func.func @heavy(%x: tensor<512x512xf32>, %w: tensor<512x512xf32> {fuel.device = #fuel.device<cuda:0>}) -> tensor<512x512xf32> {
  %0 = fuel.relu %x : tensor<512x512xf32>
  %1 = fuel.matmul %0, %w : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
  func.return %1 : tensor<512x512xf32>
}

// Too little to go anywhere: no target is noted, which is the first of the topology.
// CHECK-LABEL: @small
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp"(%x_1 = %x : tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %1 = fuel.exp %x_1 : tensor<8xf32>
// CHECK-NEXT: fuel.yield %1 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %0 : tensor<8xf32>
func.func @small(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = fuel.exp %x : tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// A pin is obeyed at any price.
// CHECK-LABEL: @pinned
// CHECK-NEXT: %0 = fuel.kernel pointwise "exp"(%x_1 = %x : tensor<8xf32>) -> tensor<8xf32> attributes {placement = #fuel.device<cuda:0>} {
// CHECK-NEXT: %1 = fuel.exp %x_1 {placement = #fuel.device<cuda:0>} : tensor<8xf32>
// CHECK-NEXT: fuel.yield %1 : tensor<8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %0 : tensor<8xf32>
func.func @pinned(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = fuel.exp %x {placement = #fuel.device<cuda:0>} : tensor<8xf32>
  func.return %0 : tensor<8xf32>
}
