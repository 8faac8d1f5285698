// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-form-runs | filecheck %s
// RUN: xdsl-opt %s -p fuel-form-runs,fuel-form-runs | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-form-runs{granularity=chain}' | filecheck %s --check-prefix=CHAIN

// Without decisions a function is one run; leaves are cloned in, results are kernel results.
// CHECK-LABEL: @one
// CHECK-NEXT:    %s = fuel.run on #fuel.target<cpu, "numpy"> (%x_1 = %x : tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK-NEXT:      %w = fuel.weight "w" : tensor<4x4xf32>
// CHECK-NEXT:      %e = fuel.kernel matmul "matmul_exp"(%x_2 = %x_1 : tensor<4x4xf32>, %w_1 = %w : tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK:           %s_1 = fuel.kernel pointwise "add"
// CHECK:           fuel.yield %s_1 : tensor<4x4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %s : tensor<4x4xf32>
// The chain rules cut at the leaf's reader, and where a kernel reads two values.
// CHAIN-LABEL: @one
// CHAIN:         fuel.run on
// CHAIN:           fuel.kernel matmul "matmul_exp"
// CHAIN:         fuel.run on
// CHAIN:           fuel.kernel pointwise "add"
// CHAIN:         func.return
func.func @one(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %w = fuel.weight "w" : tensor<4x4xf32>
  %m = fuel.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %e = fuel.exp %m : tensor<4x4xf32>
  %t = fuel.transpose %e : tensor<4x4xf32> -> tensor<4x4xf32>
  %s = fuel.add %e, %t : tensor<4x4xf32>
  func.return %s : tensor<4x4xf32>
}

// A decision cuts: one run before, one in each arm, one after. What does not wait for the
// decision goes in front of it.
// CHECK-LABEL: @decision
// CHECK-NEXT:    %a, %i = fuel.run on
// CHECK:           fuel.kernel pointwise "exp"
// CHECK:           fuel.kernel reduction "max_dim"
// CHECK:         %b = fuel.branch "d0"(%p = %a : tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT:      %0 = fuel.run on #fuel.target<cpu, "numpy"> (%p_1 = %p : tensor<4xf32>) -> tensor<4xf32> {
// CHECK:         arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NEXT:      %{{.*}} = fuel.run on #fuel.target<cuda:0, "triton"> (%p_1 = %p : tensor<4xf32>) -> tensor<4xf32> {
// CHECK:         %s = fuel.run on
// CHECK:           fuel.kernel pointwise "add"
// CHECK:         func.return %s, %i
func.func @decision(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  %a = fuel.exp %x : tensor<4xf32>
  %b = fuel.branch "d0"(%p = %a : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.sqr %p : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %0 = fuel.mul %p, %p : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  %i = fuel.max_dim %x {dim = 0 : i64} : tensor<4xf32> -> tensor<f32>
  %s = fuel.add %b, %a : tensor<4xf32>
  func.return %s, %i : tensor<4xf32>, tensor<f32>
}

// A transfer cuts.
// CHECK-LABEL: @transfer
// CHECK-NEXT:    %a = fuel.run on
// CHECK:         %c = fuel.copy %a to #fuel.device<cpu>
// CHECK-NEXT:    %b = fuel.run on
func.func @transfer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = fuel.exp %x : tensor<4xf32>
  %c = fuel.copy %a to #fuel.device<cpu> : tensor<4xf32>
  %b = fuel.exp %c : tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// Nothing to run: arguments and leaves are returned as they are.
// CHECK-LABEL: @nothing
// CHECK-NEXT:    %c = fuel.const
// CHECK-NEXT:    func.return %x, %c
func.func @nothing(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c = fuel.const 1.0 : f32 -> tensor<4xf32>
  func.return %x, %c : tensor<4xf32>, tensor<4xf32>
}
