// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-form-kernels,fuel-fork-variants | filecheck %s
// RUN: xdsl-opt %s -p fuel-form-kernels,fuel-fork-variants,fuel-fork-variants | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-form-kernels,fuel-fork-variants{reach=1.0}' | filecheck %s --check-prefix=NONE
// RUN: xdsl-opt %s -p 'fuel-form-kernels,fuel-fork-variants{max-branches=0}' | filecheck %s --check-prefix=NONE
// RUN: not xdsl-opt %s -p 'fuel-fork-variants{reach=0.5}' 2>&1 | filecheck %s --check-prefix=REACH

// REACH: fuel-fork-variants: reach must be >= 1, got 0.5
// NONE-NOT: origin

// A pointwise kernel is also one call per op; what is constant is cloned into the arms.
// CHECK-LABEL: @pointwise
// CHECK-NEXT:    %0 = fuel.branch "d0"(%x_1 = %x : tensor<512x256xf32>, %g_1 = %g : tensor<256xf32>) -> tensor<512x256xf32>
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> price {{[0-9]+}} origin "fuel-fork-variants: as written" {
// CHECK-NEXT:      %w = fuel.weight "w" : tensor<512x256xf32>
// CHECK-NEXT:      %1 = fuel.kernel pointwise "mul_add"(%x_2 = %x_1 : tensor<512x256xf32>, %g_2 = %g_1 : tensor<256xf32>, %w_1 = %w : tensor<512x256xf32>) -> tensor<512x256xf32> {
// CHECK-NEXT:        %b = fuel.broadcast_to %g_2 : tensor<256xf32> -> tensor<512x256xf32>
// CHECK-NEXT:        %2 = fuel.mul %x_2, %b : tensor<512x256xf32>
// CHECK-NEXT:        %3 = fuel.add %2, %w_1 : tensor<512x256xf32>
// CHECK-NEXT:        fuel.yield %3 : tensor<512x256xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      fuel.yield %1 : tensor<512x256xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> price {{[0-9]+}} origin "fuel-fork-variants: one library call per op" {
// CHECK-NEXT:      %w_1 = fuel.weight "w" : tensor<512x256xf32>
// CHECK-NEXT:      %2 = fuel.kernel library "mul"(%x_2 = %x_1 : tensor<512x256xf32>, %g_2 = %g_1 : tensor<256xf32>) -> tensor<512x256xf32> {
// CHECK-NEXT:        %b = fuel.broadcast_to %g_2 : tensor<256xf32> -> tensor<512x256xf32>
// CHECK-NEXT:        %3 = fuel.mul %x_2, %b : tensor<512x256xf32>
// CHECK-NEXT:        fuel.yield %3 : tensor<512x256xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %3 = fuel.kernel library "add"(%4 = %2 : tensor<512x256xf32>, %w_2 = %w_1 : tensor<512x256xf32>) -> tensor<512x256xf32> {
// CHECK-NEXT:        %5 = fuel.add %4, %w_2 : tensor<512x256xf32>
// CHECK-NEXT:        fuel.yield %5 : tensor<512x256xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      fuel.yield %3 : tensor<512x256xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %0 : tensor<512x256xf32>
func.func @pointwise(%x: tensor<512x256xf32>, %g: tensor<256xf32>) -> tensor<512x256xf32> {
  %w = fuel.weight "w" : tensor<512x256xf32>
  %b = fuel.broadcast_to %g : tensor<256xf32> -> tensor<512x256xf32>
  %0 = fuel.mul %x, %b : tensor<512x256xf32>
  %1 = fuel.add %0, %w : tensor<512x256xf32>
  func.return %1 : tensor<512x256xf32>
}

// A softmax is also the kernels of its decomposition.
// CHECK-LABEL: @softmax
// CHECK-NEXT:    %0 = fuel.branch "d0"(%x_1 = %x : tensor<512x256xf32>) -> tensor<512x256xf32>
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> price {{[0-9]+}} origin "fuel-fork-variants: as written" {
// CHECK-NEXT:      %1 = fuel.kernel reduction "softmax_last_dim"(%x_2 = %x_1 : tensor<512x256xf32>) -> tensor<512x256xf32> {
// CHECK-NEXT:        %2 = fuel.softmax_last_dim %x_2 : tensor<512x256xf32>
// CHECK-NEXT:        fuel.yield %2 : tensor<512x256xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      fuel.yield %1 : tensor<512x256xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> price {{[0-9]+}} origin "fuel-fork-variants: decomposed" {
// CHECK-NEXT:      %2 = fuel.kernel library "reduce_max_to"(%x_2 = %x_1 : tensor<512x256xf32>) -> tensor<512x1xf32> {
// CHECK-NEXT:        %3 = fuel.reduce_max_to %x_2 : tensor<512x256xf32> -> tensor<512x1xf32>
// CHECK-NEXT:        fuel.yield %3 : tensor<512x1xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %3 = fuel.kernel pointwise "sub_exp"(%x_2 = %x_1 : tensor<512x256xf32>, %4 = %2 : tensor<512x1xf32>) -> tensor<512x256xf32> {
// CHECK-NEXT:        %5 = fuel.broadcast_to %4 : tensor<512x1xf32> -> tensor<512x256xf32>
// CHECK-NEXT:        %6 = fuel.sub %x_2, %5 : tensor<512x256xf32>
// CHECK-NEXT:        %7 = fuel.exp %6 : tensor<512x256xf32>
// CHECK-NEXT:        fuel.yield %7 : tensor<512x256xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %4 = fuel.kernel library "reduce_sum_to"(%5 = %3 : tensor<512x256xf32>) -> tensor<512x1xf32> {
// CHECK-NEXT:        %6 = fuel.reduce_sum_to %5 : tensor<512x256xf32> -> tensor<512x1xf32>
// CHECK-NEXT:        fuel.yield %6 : tensor<512x1xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      %5 = fuel.kernel pointwise "div"(%6 = %3 : tensor<512x256xf32>, %7 = %4 : tensor<512x1xf32>) -> tensor<512x256xf32> {
// CHECK-NEXT:        %8 = fuel.broadcast_to %7 : tensor<512x1xf32> -> tensor<512x256xf32>
// CHECK-NEXT:        %9 = fuel.div %6, %8 : tensor<512x256xf32>
// CHECK-NEXT:        fuel.yield %9 : tensor<512x256xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      fuel.yield %5 : tensor<512x256xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %0 : tensor<512x256xf32>
func.func @softmax(%x: tensor<512x256xf32>) -> tensor<512x256xf32> {
  %0 = fuel.softmax_last_dim %x : tensor<512x256xf32>
  func.return %0 : tensor<512x256xf32>
}

// One tile: both forms would make the same calls.
// CHECK-LABEL: @small
// CHECK-NEXT: fuel.kernel pointwise "exp_tanh"
// CHECK-NOT: fuel.branch
// CHECK: func.return
func.func @small(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fuel.exp %x : tensor<64xf32>
  %1 = fuel.tanh %0 : tensor<64xf32>
  func.return %1 : tensor<64xf32>
}

// A fork in an arm that a person wrote takes an id that the function does not have.
// CHECK-LABEL: @nested
// CHECK: fuel.branch "d0"
// CHECK: arm on #fuel.target<cpu, "numpy"> {
// CHECK: fuel.branch "d1"
// CHECK: arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NOT: fuel.branch
func.func @nested(%x: tensor<512x256xf32>) -> tensor<512x256xf32> {
  %y = fuel.branch "d0"(%a = %x : tensor<512x256xf32>) -> tensor<512x256xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.softmax_last_dim %a : tensor<512x256xf32>
    fuel.yield %0 : tensor<512x256xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %0 = fuel.softmax_last_dim %a : tensor<512x256xf32>
    fuel.yield %0 : tensor<512x256xf32>
  }
  func.return %y : tensor<512x256xf32>
}
