// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p 'fuel-insert-contiguous' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-insert-contiguous,fuel-insert-contiguous' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-insert-contiguous{topology="cpu"}' | filecheck %s --check-prefix=CPU
// RUN: xdsl-opt %s -p 'fuel-insert-contiguous,fuel-strip-plan' | filecheck %s --check-prefix=STRIP

// STRIP-NOT: movement

builtin.module attributes {fuel.topology = #fuel.topology<"packed", [#fuel.target<cpu, "numpy">], {devices = [{name = "cpu"}], rates = {"cpu/numpy" = {bytes_per_ns = 20.0 : f64, operations_per_ns = 8.0 : f64, flops_per_ns = 100.0 : f64, launch_ns = 500 : i64, strides = {pointwise = "contiguous", matmul = "contiguous"}}}}>} {

// Two kernels read one view: it is written out once. A view without gaps stays.
// CHECK-LABEL: @once
// CHECK-NEXT: %t = fuel.kernel movement "transpose"(%x_1 = %x : tensor<4x8xf32>) -> tensor<8x4xf32> {
// CHECK-NEXT: %t_1 = fuel.transpose %x_1 : tensor<4x8xf32> -> tensor<8x4xf32>
// CHECK-NEXT: fuel.yield %t_1 : tensor<8x4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %a = fuel.kernel pointwise "exp"(%t_1 = %t : tensor<8x4xf32>) -> tensor<8x4xf32> {
// CHECK-NEXT: %0 = fuel.exp %t_1 : tensor<8x4xf32>
// CHECK-NEXT: fuel.yield %0 : tensor<8x4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %b = fuel.kernel pointwise "neg_mul"(%f_1 = %f : tensor<32xf32>, %t_1 = %t : tensor<8x4xf32>) -> tensor<8x4xf32> {
// CHECK-NEXT: %v = fuel.reshape %f_1 : tensor<32xf32> -> tensor<8x4xf32>
// CHECK-NEXT: %n = fuel.neg %t_1 : tensor<8x4xf32>
// CHECK-NEXT: %0 = fuel.mul %n, %v : tensor<8x4xf32>
// CHECK-NEXT: fuel.yield %0 : tensor<8x4xf32>
// CHECK-NEXT: }
// CPU-LABEL: @once
// CPU-NOT: movement
func.func @once(%x: tensor<4x8xf32>, %f: tensor<32xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %a = fuel.kernel pointwise "exp"(%x_1 = %x : tensor<4x8xf32>) -> tensor<8x4xf32> {
    %t = fuel.transpose %x_1 : tensor<4x8xf32> -> tensor<8x4xf32>
    %0 = fuel.exp %t : tensor<8x4xf32>
    fuel.yield %0 : tensor<8x4xf32>
  }
  %b = fuel.kernel pointwise "neg_mul"(%x_1 = %x : tensor<4x8xf32>, %f_1 = %f : tensor<32xf32>) -> tensor<8x4xf32> {
    %t = fuel.transpose %x_1 : tensor<4x8xf32> -> tensor<8x4xf32>
    %v = fuel.reshape %f_1 : tensor<32xf32> -> tensor<8x4xf32>
    %n = fuel.neg %t : tensor<8x4xf32>
    %0 = fuel.mul %n, %v : tensor<8x4xf32>
    fuel.yield %0 : tensor<8x4xf32>
  }
  func.return %a, %b : tensor<8x4xf32>, tensor<8x4xf32>
}
// In an arm, in front of the kernel there; of a matmul, what is no operand of it too.
// CHECK-LABEL: @arms
// CHECK: arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT: %t = fuel.kernel movement "transpose"(%x_2 = %x_1 : tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK: %b = fuel.kernel movement "broadcast_to"(%r_2 = %r_1 : tensor<4xf32>) -> tensor<4x4xf32> {
// CHECK: %m = fuel.kernel matmul "matmul_add"(%y = %x_1 : tensor<4x4xf32>, %t_1 = %t : tensor<4x4xf32>, %b_1 = %b : tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK-NEXT: %p = fuel.matmul %y, %t_1
// CHECK-NEXT: %q = fuel.add %p, %b_1
// Arms for what the topology lacks are not lowered here.
// CHECK: arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NOT: movement
// CHECK-LABEL: @flipped
// CHECK-COUNT-2: fuel.kernel movement
func.func @arms(%x: tensor<4x4xf32>, %r: tensor<4xf32>) -> tensor<4x4xf32> {
  %z = fuel.branch "d0"(%x_1 = %x : tensor<4x4xf32>, %r_1 = %r : tensor<4xf32>) -> tensor<4x4xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %m = fuel.kernel matmul "matmul_add"(%y = %x_1 : tensor<4x4xf32>, %c = %r_1 : tensor<4xf32>) -> tensor<4x4xf32> {
      %t = fuel.transpose %y : tensor<4x4xf32> -> tensor<4x4xf32>
      %b = fuel.broadcast_to %c : tensor<4xf32> -> tensor<4x4xf32>
      %p = fuel.matmul %y, %t : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      %q = fuel.add %p, %b : tensor<4x4xf32>
      fuel.yield %q : tensor<4x4xf32>
    }
    fuel.yield %m : tensor<4x4xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %m = fuel.kernel pointwise "exp"(%y = %x_1 : tensor<4x4xf32>) -> tensor<4x4xf32> {
      %t = fuel.transpose %y : tensor<4x4xf32> -> tensor<4x4xf32>
      %e = fuel.exp %t : tensor<4x4xf32>
      fuel.yield %e : tensor<4x4xf32>
    }
    fuel.yield %m : tensor<4x4xf32>
  }
  func.return %z : tensor<4x4xf32>
}

// BLAS reads a transposed matrix as it is, and no matrix that is flipped.
// CPU-LABEL: @flipped
// CPU-NEXT: %f = fuel.kernel movement "flip"(%x_1 = %x : tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
// CPU: %m = fuel.kernel matmul "matmul"(%y = %x : tensor<2x4x4xf32>, %f_1 = %f : tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
// CPU-NEXT: %t = fuel.transpose %y
func.func @flipped(%x: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %m = fuel.kernel matmul "matmul"(%y = %x : tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %t = fuel.transpose %y : tensor<2x4x4xf32> -> tensor<2x4x4xf32>
    %f = fuel.flip %y {dim = 1 : i64} : tensor<2x4x4xf32> -> tensor<2x4x4xf32>
    %p = fuel.matmul %t, %f : tensor<2x4x4xf32>, tensor<2x4x4xf32> -> tensor<2x4x4xf32>
    fuel.yield %p : tensor<2x4x4xf32>
  }
  func.return %m : tensor<2x4x4xf32>
}
}
