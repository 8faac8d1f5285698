// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p 'fuel-plan{topology="2xh100"},fuel-fork-placements{topology="2xh100"}' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-plan{topology="2xh100"},fuel-fork-placements{topology="2xh100"},fuel-fork-placements{topology="2xh100"}' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-plan{topology="2xh100"},fuel-fork-placements{topology="2xh100" reach=1}' | filecheck %s --check-prefix=NONE
// RUN: not xdsl-opt %s -p 'fuel-fork-placements{reach=0.5}' 2>&1 | filecheck %s --check-prefix=REACH
// RUN: not xdsl-opt %s -p 'fuel-fork-placements{refuge=0}' 2>&1 | filecheck %s --check-prefix=REFUGE

// NONE-NOT: fuel.branch
// REACH: fuel-fork-placements: reach must be >= 1, got 0.5
// REFUGE: fuel-fork-placements: refuge must be above 0 and at most 1, got 0

// CHECK: builtin.module attributes {fuel.plan = "{{[0-9a-f]+}}"}

// All kernels of one target that nothing parts are one segment.
// CHECK-LABEL: @segment
// CHECK-NEXT: %0 = fuel.branch "d0"(%x_1 = %x : tensor<512x512xf32>, %w_1 = %w : tensor<512x512xf32>) -> tensor<512x512xf32>
// CHECK-NEXT: arm on #fuel.target<cuda:0, "triton"> price {{[0-9]+}} origin "fuel-fork-placements: as planned" {
// CHECK-NEXT: %1 = fuel.kernel pointwise "relu"(%x_2 = %x_1 : tensor<512x512xf32>) -> tensor<512x512xf32> {
// CHECK-NEXT: %2 = fuel.relu %x_2 : tensor<512x512xf32>
// CHECK-NEXT: fuel.yield %2 : tensor<512x512xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %2 = fuel.kernel matmul "matmul"(%3 = %1 : tensor<512x512xf32>, %w_2 = %w_1 : tensor<512x512xf32>) -> tensor<512x512xf32> {
// CHECK-NEXT: %4 = fuel.matmul %3, %w_2 : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
// CHECK-NEXT: fuel.yield %4 : tensor<512x512xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %2 : tensor<512x512xf32>
// CHECK-NEXT: }
// CHECK-NEXT: arm on #fuel.target<cuda:1, "triton"> price {{[0-9]+}} origin "fuel-fork-placements: runner-up" {
// CHECK-NEXT: %3 = fuel.kernel pointwise "relu"(%x_2 = %x_1 : tensor<512x512xf32>) -> tensor<512x512xf32> {
// CHECK-NEXT: %4 = fuel.relu %x_2 : tensor<512x512xf32>
// CHECK-NEXT: fuel.yield %4 : tensor<512x512xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %4 = fuel.kernel matmul "matmul"(%5 = %3 : tensor<512x512xf32>, %w_2 = %w_1 : tensor<512x512xf32>) -> tensor<512x512xf32> {
// CHECK-NEXT: %6 = fuel.matmul %5, %w_2 : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
// CHECK-NEXT: fuel.yield %6 : tensor<512x512xf32>
// CHECK-NEXT: }
// CHECK-NEXT: fuel.yield %4 : tensor<512x512xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %0 : tensor<512x512xf32>
func.func @segment(%x: tensor<512x512xf32>, %w: tensor<512x512xf32> {fuel.device = #fuel.device<cuda:0>}) -> tensor<512x512xf32> {
  %0 = fuel.relu %x : tensor<512x512xf32>
  %1 = fuel.matmul %0, %w : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
  func.return %1 : tensor<512x512xf32>
}

// Nothing is within reach.
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

// What is pinned is no choice.
// CHECK-LABEL: @pinned
// CHECK-NEXT: %0 = fuel.kernel matmul "matmul"(%x_1 = %x : tensor<512x512xf32>, %w_1 = %w : tensor<512x512xf32>) -> tensor<512x512xf32> attributes {placement = #fuel.device<cuda:1>} {
// CHECK-NEXT: %1 = fuel.matmul %x_1, %w_1 {placement = #fuel.device<cuda:1>} : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
// CHECK-NEXT: fuel.yield %1 : tensor<512x512xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.return %0 : tensor<512x512xf32>
func.func @pinned(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = fuel.matmul %x, %w {placement = #fuel.device<cuda:1>} : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
  func.return %0 : tensor<512x512xf32>
}
