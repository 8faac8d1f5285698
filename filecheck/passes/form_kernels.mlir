// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-form-kernels | filecheck %s
// RUN: xdsl-opt %s -p fuel-form-kernels,fuel-form-kernels | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-form-kernels{max-ops=1}' | filecheck %s --check-prefix=ONE
// RUN: not xdsl-opt %s -p 'fuel-form-kernels{max-operands=0}' 2>&1 | filecheck %s --check-prefix=ZERO
// ZERO: fuel-form-kernels: max-operands must be >= 1, got 0

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

// Views of operands are in the kernel that reads them; a scan is a kernel of its kind.
// CHECK-LABEL: @others
// CHECK-NEXT:    %m = fuel.kernel matmul "matmul"(%x_1 = %x : tensor<4x8xf32>) -> tensor<4x4xf32> {
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
// CHECK-NEXT:    %f = fuel.kernel movement "reshape"(%x_1 = %x : tensor<2x3xf32>) -> tensor<6xf32> {
// CHECK-NEXT:      %t = fuel.transpose %x_1 : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK-NEXT:      %f_1 = fuel.reshape %t : tensor<3x2xf32> -> tensor<6xf32>
// CHECK-NEXT:      fuel.yield %f_1 : tensor<6xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %s = fuel.kernel pointwise "add"(%f_1 = %f : tensor<6xf32>, %x_1 = %x : tensor<2x3xf32>) -> tensor<6xf32> {
// CHECK-NEXT:      %g = fuel.reshape %x_1 : tensor<2x3xf32> -> tensor<6xf32>
// CHECK-NEXT:      %s_1 = fuel.add %f_1, %g : tensor<6xf32>
// CHECK-NEXT:      fuel.yield %s_1 : tensor<6xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %t = fuel.kernel movement "transpose"(%x_1 = %x : tensor<2x3xf32>) -> tensor<3x2xf32> {
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

// A row kernel: what is elementwise before a softmax, and after it, is read and written once.
// CHECK-LABEL: @row
// CHECK-NEXT:    %y = fuel.kernel reduction "mul_scalar_softmax_last_dim_mul"(%x_1 = %x : tensor<4x8xf32>, %g_1 = %g : tensor<8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT:      %b = fuel.broadcast_to %g_1 : tensor<8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:      %d = fuel.mul_scalar %x_1 {scalar = 2.000000e+00 : f64} : tensor<4x8xf32>
// CHECK-NEXT:      %s = fuel.softmax_last_dim %d : tensor<4x8xf32>
// CHECK-NEXT:      %y_1 = fuel.mul %s, %b : tensor<4x8xf32>
// CHECK-NEXT:      fuel.yield %y_1 : tensor<4x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %y : tensor<4x8xf32>
func.func @row(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %d = fuel.mul_scalar %x {scalar = 2.0 : f64} : tensor<4x8xf32>
  %s = fuel.softmax_last_dim %d : tensor<4x8xf32>
  %b = fuel.broadcast_to %g : tensor<8xf32> -> tensor<4x8xf32>
  %y = fuel.mul %s, %b : tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

// A decomposed softmax is one kernel too: statistics are broadcast back inside. The sum of a row is
// a second result where others read it.
// CHECK-LABEL: @decomposed
// CHECK-NEXT:    %s, %y = fuel.kernel reduction "reduce_max_to_sub_exp_reduce_sum_to_and_1_more"(%x_1 = %x : tensor<4x8xf32>) -> (tensor<4x1xf32>, tensor<4x8xf32>) {
// CHECK-NEXT:      %m = fuel.reduce_max_to %x_1 : tensor<4x8xf32> -> tensor<4x1xf32>
// CHECK-NEXT:      %mb = fuel.broadcast_to %m : tensor<4x1xf32> -> tensor<4x8xf32>
// CHECK-NEXT:      %d = fuel.sub %x_1, %mb : tensor<4x8xf32>
// CHECK-NEXT:      %e = fuel.exp %d : tensor<4x8xf32>
// CHECK-NEXT:      %s_1 = fuel.reduce_sum_to %e : tensor<4x8xf32> -> tensor<4x1xf32>
// CHECK-NEXT:      %sb = fuel.broadcast_to %s_1 : tensor<4x1xf32> -> tensor<4x8xf32>
// CHECK-NEXT:      %y_1 = fuel.div %e, %sb : tensor<4x8xf32>
// CHECK-NEXT:      fuel.yield %s_1, %y_1 : tensor<4x1xf32>, tensor<4x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %y, %s : tensor<4x8xf32>, tensor<4x1xf32>
func.func @decomposed(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>) {
  %m = fuel.reduce_max_to %x : tensor<4x8xf32> -> tensor<4x1xf32>
  %mb = fuel.broadcast_to %m : tensor<4x1xf32> -> tensor<4x8xf32>
  %d = fuel.sub %x, %mb : tensor<4x8xf32>
  %e = fuel.exp %d : tensor<4x8xf32>
  %s = fuel.reduce_sum_to %e : tensor<4x8xf32> -> tensor<4x1xf32>
  %sb = fuel.broadcast_to %s : tensor<4x1xf32> -> tensor<4x8xf32>
  %y = fuel.div %e, %sb : tensor<4x8xf32>
  func.return %y, %s : tensor<4x8xf32>, tensor<4x1xf32>
}

// Any axes, and arithmetic on the statistics: a norm along the first.
// CHECK-LABEL: @columns
// CHECK-NEXT:    %y = fuel.kernel reduction "sqr_mean_dim_sqrt_div"(%x_1 = %x : tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT:      %q = fuel.sqr %x_1 : tensor<4x8xf32>
// CHECK-NEXT:      %m = fuel.mean_dim %q {dim = 0 : i64} : tensor<4x8xf32> -> tensor<8xf32>
// CHECK-NEXT:      %r = fuel.sqrt %m : tensor<8xf32>
// CHECK-NEXT:      %u = fuel.unsqueeze %r {dim = 0 : i64} : tensor<8xf32> -> tensor<1x8xf32>
// CHECK-NEXT:      %b = fuel.broadcast_to %u : tensor<1x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:      %y_1 = fuel.div %x_1, %b : tensor<4x8xf32>
// CHECK-NEXT:      fuel.yield %y_1 : tensor<4x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %y : tensor<4x8xf32>
func.func @columns(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %q = fuel.sqr %x : tensor<4x8xf32>
  %m = fuel.mean_dim %q {dim = 0 : i64} : tensor<4x8xf32> -> tensor<8xf32>
  %r = fuel.sqrt %m : tensor<8xf32>
  %u = fuel.unsqueeze %r {dim = 0 : i64} : tensor<8xf32> -> tensor<1x8xf32>
  %b = fuel.broadcast_to %u : tensor<1x8xf32> -> tensor<4x8xf32>
  %y = fuel.div %x, %b : tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

// Reductions along different axes are different kernels, and so is what reads a statistic in
// another way than broadcast along its rows.
// CHECK-LABEL: @axes
// CHECK-NEXT:    %s = fuel.kernel reduction "sum_dim"(%x_1 = %x : tensor<4x4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %s_1 = fuel.sum_dim %x_1 {dim = 1 : i64} : tensor<4x4xf32> -> tensor<4xf32>
// CHECK-NEXT:      fuel.yield %s_1 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %y = fuel.kernel pointwise "sub"(%x_1 = %x : tensor<4x4xf32>, %s_1 = %s : tensor<4xf32>) -> tensor<4x4xf32> {
// CHECK-NEXT:      %b = fuel.broadcast_to %s_1 : tensor<4xf32> -> tensor<4x4xf32>
// CHECK-NEXT:      %y_1 = fuel.sub %x_1, %b : tensor<4x4xf32>
// CHECK-NEXT:      fuel.yield %y_1 : tensor<4x4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %t = fuel.kernel reduction "max_dim"(%s_1 = %s : tensor<4xf32>) -> tensor<f32> {
// CHECK-NEXT:      %t_1 = fuel.max_dim %s_1 {dim = 0 : i64} : tensor<4xf32> -> tensor<f32>
// CHECK-NEXT:      fuel.yield %t_1 : tensor<f32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %y, %t : tensor<4x4xf32>, tensor<f32>
func.func @axes(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<f32>) {
  %s = fuel.sum_dim %x {dim = 1 : i64} : tensor<4x4xf32> -> tensor<4xf32>
  %b = fuel.broadcast_to %s : tensor<4xf32> -> tensor<4x4xf32>
  %y = fuel.sub %x, %b : tensor<4x4xf32>
  %t = fuel.max_dim %s {dim = 0 : i64} : tensor<4xf32> -> tensor<f32>
  func.return %y, %t : tensor<4x4xf32>, tensor<f32>
}

// A matmul takes in what is elementwise on its result (bias, activation, residual, cast); a
// reduction of it is another kernel, and so is another matmul.
// CHECK-LABEL: @product
// CHECK-NEXT:    %z = fuel.kernel matmul "matmul_add_relu_add"(%x_1 = %x : tensor<4x8xf32>, %w_1 = %w : tensor<8x8xf32>, %g_1 = %g : tensor<8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT:      %b = fuel.broadcast_to %g_1 : tensor<8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:      %m = fuel.matmul %x_1, %w_1 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:      %a = fuel.add %m, %b : tensor<4x8xf32>
// CHECK-NEXT:      %r = fuel.relu %a : tensor<4x8xf32>
// CHECK-NEXT:      %z_1 = fuel.add %r, %x_1 : tensor<4x8xf32>
// CHECK-NEXT:      fuel.yield %z_1 : tensor<4x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %n, %c = fuel.kernel matmul "matmul_cast"(%z_1 = %z : tensor<4x8xf32>, %w_1 = %w : tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>) {
// CHECK-NEXT:      %n_1 = fuel.matmul %z_1, %w_1 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:      %c_1 = fuel.cast %n_1 : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-NEXT:      fuel.yield %n_1, %c_1 : tensor<4x8xf32>, tensor<4x8xbf16>
// CHECK-NEXT:    }
// CHECK-NEXT:    %s = fuel.kernel reduction "sum_dim"(%n_1 = %n : tensor<4x8xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %s_1 = fuel.sum_dim %n_1 {dim = 1 : i64} : tensor<4x8xf32> -> tensor<4xf32>
// CHECK-NEXT:      fuel.yield %s_1 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %c, %s : tensor<4x8xbf16>, tensor<4xf32>
func.func @product(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xbf16>, tensor<4xf32>) {
  %m = fuel.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %b = fuel.broadcast_to %g : tensor<8xf32> -> tensor<4x8xf32>
  %a = fuel.add %m, %b : tensor<4x8xf32>
  %r = fuel.relu %a : tensor<4x8xf32>
  %z = fuel.add %r, %x : tensor<4x8xf32>
  %n = fuel.matmul %z, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %c = fuel.cast %n : tensor<4x8xf32> -> tensor<4x8xbf16>
  %s = fuel.sum_dim %n {dim = 1 : i64} : tensor<4x8xf32> -> tensor<4xf32>
  func.return %c, %s : tensor<4x8xbf16>, tensor<4xf32>
}

// What only moves elements is a kernel of its own.
// CHECK-LABEL: @movement
// CHECK-NEXT:    %e = fuel.kernel pointwise "exp"(%x_1 = %x : tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT:      %e_1 = fuel.exp %x_1 : tensor<4x8xf32>
// CHECK-NEXT:      fuel.yield %e_1 : tensor<4x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %s = fuel.kernel movement "index_select"(%e_1 = %e : tensor<4x8xf32>, %i_1 = %i : tensor<3xui32>) -> tensor<3x8xf32> {
// CHECK-NEXT:      %s_1 = fuel.index_select %e_1, %i_1 {dim = 0 : i64} : tensor<4x8xf32>, tensor<3xui32> -> tensor<3x8xf32>
// CHECK-NEXT:      fuel.yield %s_1 : tensor<3x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %c = fuel.kernel movement "concat"(%s_1 = %s : tensor<3x8xf32>) -> tensor<6x8xf32> {
// CHECK-NEXT:      %c_1 = fuel.concat %s_1, %s_1 {dim = 0 : i64} : tensor<3x8xf32>, tensor<3x8xf32> -> tensor<6x8xf32>
// CHECK-NEXT:      fuel.yield %c_1 : tensor<6x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %c : tensor<6x8xf32>
func.func @movement(%x: tensor<4x8xf32>, %i: tensor<3xui32>) -> tensor<6x8xf32> {
  %e = fuel.exp %x : tensor<4x8xf32>
  %s = fuel.index_select %e, %i {dim = 0 : i64} : tensor<4x8xf32>, tensor<3xui32> -> tensor<3x8xf32>
  %c = fuel.concat %s, %s {dim = 0 : i64} : tensor<3x8xf32>, tensor<3x8xf32> -> tensor<6x8xf32>
  func.return %c : tensor<6x8xf32>
}

// A reduction whose rows have one element has nothing to fuse with.
// CHECK-LABEL: @single
// CHECK-NEXT:    %e = fuel.kernel pointwise "exp"(%x_1 = %x : tensor<4x1xf32>) -> tensor<4x1xf32> {
// CHECK-NEXT:      %e_1 = fuel.exp %x_1 : tensor<4x1xf32>
// CHECK-NEXT:      fuel.yield %e_1 : tensor<4x1xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %s = fuel.kernel reduction "sum_dim"(%e_1 = %e : tensor<4x1xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %s_1 = fuel.sum_dim %e_1 {dim = 1 : i64} : tensor<4x1xf32> -> tensor<4xf32>
// CHECK-NEXT:      fuel.yield %s_1 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %s : tensor<4xf32>
func.func @single(%x: tensor<4x1xf32>) -> tensor<4xf32> {
  %e = fuel.exp %x : tensor<4x1xf32>
  %s = fuel.sum_dim %e {dim = 1 : i64} : tensor<4x1xf32> -> tensor<4xf32>
  func.return %s : tensor<4xf32>
}

// Pins keep the parts of a row kernel apart.
// CHECK-LABEL: @pinned_rows
// CHECK-NEXT:    %e = fuel.kernel pointwise "exp"(%x_1 = %x : tensor<4x8xf32>) -> tensor<4x8xf32> attributes {placement = #fuel.device<cuda:0>} {
// CHECK-NEXT:      %e_1 = fuel.exp %x_1 {placement = #fuel.device<cuda:0>} : tensor<4x8xf32>
// CHECK-NEXT:      fuel.yield %e_1 : tensor<4x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %s = fuel.kernel reduction "softmax_last_dim"(%e_1 = %e : tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT:      %s_1 = fuel.softmax_last_dim %e_1 : tensor<4x8xf32>
// CHECK-NEXT:      fuel.yield %s_1 : tensor<4x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %t = fuel.kernel reduction "sum_dim"(%s_1 = %s : tensor<4x8xf32>) -> tensor<4xf32> attributes {placement = #fuel.device<cuda:0>} {
// CHECK-NEXT:      %t_1 = fuel.sum_dim %s_1 {dim = 1 : i64, placement = #fuel.device<cuda:0>} : tensor<4x8xf32> -> tensor<4xf32>
// CHECK-NEXT:      fuel.yield %t_1 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %n = fuel.kernel pointwise "neg"(%t_1 = %t : tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %n_1 = fuel.neg %t_1 : tensor<4xf32>
// CHECK-NEXT:      fuel.yield %n_1 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %n : tensor<4xf32>
func.func @pinned_rows(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %e = fuel.exp %x {placement = #fuel.device<cuda:0>} : tensor<4x8xf32>
  %s = fuel.softmax_last_dim %e : tensor<4x8xf32>
  %t = fuel.sum_dim %s {dim = 1 : i64, placement = #fuel.device<cuda:0>} : tensor<4x8xf32> -> tensor<4xf32>
  %n = fuel.neg %t : tensor<4xf32>
  func.return %n : tensor<4xf32>
}
