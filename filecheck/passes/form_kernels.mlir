// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-form-kernels | filecheck %s
// RUN: xdsl-opt %s -p fuel-form-kernels,fuel-form-kernels | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-form-kernels{max-ops=1}' | filecheck %s --check-prefix=ONE

// Elementwise ops of one shape become one kernel; broadcast operands and splats fold in.
// CHECK-LABEL: @chain
// CHECK-NEXT:    %e = fuel.kernel pointwise "mul_mul_exp"(%x_1 = %x : tensor<4x8xf32>, %g_1 = %g : tensor<8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT:      %b = fuel.broadcast_to %g_1 : tensor<8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:      %c = fuel.const 2.000000e+00 : f32 -> tensor<4x8xf32>
// CHECK-NEXT:      %y = fuel.mul %x_1, %b : tensor<4x8xf32>
// CHECK-NEXT:      %z = fuel.mul %y, %c : tensor<4x8xf32>
// CHECK-NEXT:      %e_1 = fuel.exp %z : tensor<4x8xf32>
// CHECK-NEXT:      fuel.yield %e_1 : tensor<4x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %e : tensor<4x8xf32>
// ONE-LABEL: @chain
// ONE:         fuel.kernel pointwise "mul"
// ONE:         fuel.kernel pointwise "mul"
// ONE:         fuel.kernel pointwise "exp"
func.func @chain(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %b = fuel.broadcast_to %g : tensor<8xf32> -> tensor<4x8xf32>
  %c = fuel.const 2.0 : f32 -> tensor<4x8xf32>
  %y = fuel.mul %x, %b : tensor<4x8xf32>
  %z = fuel.mul %y, %c : tensor<4x8xf32>
  %e = fuel.exp %z : tensor<4x8xf32>
  func.return %e : tensor<4x8xf32>
}

// Two chains that meet are one kernel; a value that others read too is a second result.
// CHECK-LABEL: @join
// CHECK-NEXT:    %a, %s = fuel.kernel pointwise "exp_neg_add"(%x_1 = %x : tensor<4xf32>, %y_1 = %y : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT:      %a_1 = fuel.exp %x_1 : tensor<4xf32>
// CHECK-NEXT:      %b = fuel.neg %y_1 : tensor<4xf32>
// CHECK-NEXT:      %s_1 = fuel.add %a_1, %b : tensor<4xf32>
// CHECK-NEXT:      fuel.yield %a_1, %s_1 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %a, %s : tensor<4xf32>, tensor<4xf32>
func.func @join(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = fuel.exp %x : tensor<4xf32>
  %b = fuel.neg %y : tensor<4xf32>
  %s = fuel.add %a, %b : tensor<4xf32>
  func.return %a, %s : tensor<4xf32>, tensor<4xf32>
}

// A kernel never reads another layout of its own result: the transpose of %e closes the group.
// CHECK-LABEL: @own_view
// CHECK:         %e = fuel.kernel pointwise "exp"
// CHECK:         %s = fuel.kernel pointwise "add"(%e_1 = %e : tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK-NEXT:      %t = fuel.transpose %e_1
// CHECK-NEXT:      %s_1 = fuel.add %e_1, %t
func.func @own_view(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = fuel.exp %x : tensor<4x4xf32>
  %t = fuel.transpose %e : tensor<4x4xf32> -> tensor<4x4xf32>
  %s = fuel.add %e, %t : tensor<4x4xf32>
  func.return %s : tensor<4x4xf32>
}

// Other ops are library kernels with the views of their operands; a scan is a kernel of its kind.
// CHECK-LABEL: @others
// CHECK-NEXT:    %m = fuel.kernel library "matmul"(%x_1 = %x : tensor<4x8xf32>) -> tensor<4x4xf32> {
// CHECK-NEXT:      %t = fuel.transpose %x_1
// CHECK-NEXT:      %m_1 = fuel.matmul %x_1, %t
// CHECK:         %h = fuel.kernel scan "scan"(%i_1 = %i : tensor<4xf32>, %m_1 = %m : tensor<4x4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %h_1 = fuel.scan init(%c = %i_1 : tensor<4xf32>) xs(%r = %m_1 : tensor<4x4xf32>) length 4 -> tensor<4xf32> {
// CHECK-NEXT:        %n = fuel.add %c, %r : tensor<4xf32>
func.func @others(%x: tensor<4x8xf32>, %i: tensor<4xf32>) -> tensor<4xf32> {
  %t = fuel.transpose %x : tensor<4x8xf32> -> tensor<8x4xf32>
  %m = fuel.matmul %x, %t : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %h = fuel.scan init(%c = %i : tensor<4xf32>) xs(%r = %m : tensor<4x4xf32>) length 4 -> tensor<4xf32> {
    %n = fuel.add %c, %r : tensor<4xf32>
    fuel.scan_yield carry(%n : tensor<4xf32>)
  }
  func.return %h : tensor<4xf32>
}

// A view that a result needs is written out; a reshape of strided data is a copy, of contiguous
// data it folds in.
// CHECK-LABEL: @views
// CHECK-NEXT:    %f = fuel.kernel pointwise "reshape"(%x_1 = %x : tensor<2x3xf32>) -> tensor<6xf32> {
// CHECK-NEXT:      %t = fuel.transpose %x_1 : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK-NEXT:      %f_1 = fuel.reshape %t : tensor<3x2xf32> -> tensor<6xf32>
// CHECK-NEXT:      fuel.yield %f_1 : tensor<6xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %s = fuel.kernel pointwise "add"(%f_1 = %f : tensor<6xf32>, %x_1 = %x : tensor<2x3xf32>) -> tensor<6xf32> {
// CHECK-NEXT:      %g = fuel.reshape %x_1 : tensor<2x3xf32> -> tensor<6xf32>
// CHECK-NEXT:      %s_1 = fuel.add %f_1, %g : tensor<6xf32>
// CHECK-NEXT:      fuel.yield %s_1 : tensor<6xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %t = fuel.kernel pointwise "transpose"(%x_1 = %x : tensor<2x3xf32>) -> tensor<3x2xf32> {
// CHECK-NEXT:      %t_1 = fuel.transpose %x_1 : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK-NEXT:      fuel.yield %t_1 : tensor<3x2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %s, %t
func.func @views(%x: tensor<2x3xf32>) -> (tensor<6xf32>, tensor<3x2xf32>) {
  %t = fuel.transpose %x : tensor<2x3xf32> -> tensor<3x2xf32>
  %f = fuel.reshape %t : tensor<3x2xf32> -> tensor<6xf32>
  %g = fuel.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  %s = fuel.add %f, %g : tensor<6xf32>
  func.return %s, %t : tensor<6xf32>, tensor<3x2xf32>
}

// Ops pinned to different devices are never one kernel.
// CHECK-LABEL: @pins
// CHECK:         fuel.kernel pointwise "exp"(%x_1 = %x : tensor<4xf32>) -> tensor<4xf32> attributes {placement = #fuel.device<cuda:0>} {
// CHECK:         fuel.kernel pointwise "neg"
func.func @pins(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = fuel.exp %x {placement = #fuel.device<cuda:0>} : tensor<4xf32>
  %n = fuel.neg %e : tensor<4xf32>
  func.return %n : tensor<4xf32>
}

// Every arm is visited, nested ones too; the branch reads whole values.
// CHECK-LABEL: @arms
// CHECK-NEXT:    %e = fuel.kernel pointwise "exp"
// CHECK:         fuel.branch "d0"(%a = %e : tensor<4xf32>) -> tensor<4xf32>
// CHECK:           fuel.kernel pointwise "sqr_add"
// CHECK:           fuel.kernel pointwise "neg"
func.func @arms(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = fuel.exp %x : tensor<4xf32>
  %y = fuel.branch "d0"(%a = %e : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.sqr %a : tensor<4xf32>
    %1 = fuel.add %0, %a : tensor<4xf32>
    fuel.yield %1 : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.branch "d1"(%b = %a : tensor<4xf32>) -> tensor<4xf32>
    arm on #fuel.target<cpu, "numpy"> {
      %1 = fuel.neg %b : tensor<4xf32>
      fuel.yield %1 : tensor<4xf32>
    }
    fuel.yield %0 : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
