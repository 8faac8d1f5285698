// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels of all runs and their launches, from IR that has runs, and from IR that has none.

// RUN: xdsl-opt -t fuel-triton %s | filecheck %s
// RUN: xdsl-opt -p fuel-optimize %s | xdsl-opt -t fuel-triton | filecheck %s

// CHECK:      # layer_0: f32[8, 16], f32[4] -> f32[8, 4]
// CHECK-NEXT: #   weight "mlp.w": f32[64]
// CHECK-NEXT: #   matmul_add_relu_kernel[1x1x1](input_0, weight "mlp.w", input_1, output_0)

// CHECK:      import triton
// CHECK-NEXT: import triton.language as tl

// CHECK:      @triton.jit
// CHECK-NEXT: def nan_maximum(a, b):
// CHECK-NEXT:     return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)

// CHECK:      # matmul_add_relu: f32[8,16], f32[16,4], f32[4] -> f32[8,4]
// CHECK-NEXT: @triton.jit
// CHECK-NEXT: def matmul_add_relu_kernel(x_ptr, w_ptr, b_ptr, y_ptr):
// CHECK-NEXT:     m = tl.arange(0, 16)[:, None]
// CHECK-NEXT:     in_m = m < 8
// CHECK-NEXT:     n = tl.arange(0, 16)[None, :]
// CHECK-NEXT:     in_n = n < 4
// CHECK-NEXT:     acc = tl.zeros((16, 16), tl.float32)
// CHECK-NEXT:     lhs_at = m * 16
// CHECK-NEXT:     rhs_at = n
// CHECK-NEXT:     for start in range(0, 16, 16):
// CHECK-NEXT:         k = start + tl.arange(0, 16)
// CHECK-NEXT:         lhs = tl.load(x_ptr + lhs_at + k[None, :], in_m, other=0)
// CHECK-NEXT:         rhs = tl.load(w_ptr + rhs_at + k[:, None] * 4, in_n, other=0)
// CHECK-NEXT:         acc = tl.dot(lhs, rhs, acc, input_precision="ieee")
// CHECK-NEXT:     wide = tl.load(b_ptr + n, in_n, other=0)
// CHECK-NEXT:     a = acc + wide
// CHECK-NEXT:     y = nan_maximum(a, 0.0)
// CHECK-NEXT:     tl.store(y_ptr + m * 4 + n, y, in_m & in_n)
func.func @layer(%x: tensor<8x16xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %w = fuel.weight "mlp.w" : tensor<16x4xf32>
  %h = fuel.matmul %x, %w : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %wide = fuel.broadcast_to %b : tensor<4xf32> -> tensor<8x4xf32>
  %a = fuel.add %h, %wide : tensor<8x4xf32>
  %y = fuel.relu %a : tensor<8x4xf32>
  func.return %y : tensor<8x4xf32>
}

// CHECK:      # sums_0: f32[4], f32[9, 4] -> f32[4], f32[9, 4]
// CHECK:      def scan_kernel(
// CHECK:          i = tl.arange(0, 4)
// CHECK-NEXT:     c_0 = tl.load({{.*}} + i)
// CHECK-NEXT:     c = c_0
// CHECK-NEXT:     for step in range(9):
// CHECK-NEXT:         x_t = tl.load(x_t_ptr + i + step * 4)
// CHECK-NEXT:         n = c + x_t
// CHECK-NEXT:         tl.store(ys_ptr + i + step * 4, n)
// CHECK-NEXT:         c = n
// CHECK-NEXT:     tl.store(last_ptr + i, c)
func.func @sums(%x: tensor<9x4xf32>, %h: tensor<4xf32>) -> (tensor<4xf32>, tensor<9x4xf32>) {
  %last, %ys = fuel.scan init(%c = %h : tensor<4xf32>) xs(%x_t = %x : tensor<9x4xf32>) length 9 -> (tensor<4xf32>, tensor<9x4xf32>) {
    %n = fuel.add %c, %x_t : tensor<4xf32>
    fuel.scan_yield carry(%n : tensor<4xf32>) ys(%n : tensor<4xf32>)
  }
  func.return %last, %ys : tensor<4xf32>, tensor<9x4xf32>
}

// A row that fits stays in registers, several rows a program.
// CHECK:      # rows_0: f32[1000, 256], f32[256] -> f32[1000, 256]
// CHECK-NEXT: #   mul_scalar_softmax_last_dim_mul_kernel[125x1x1](input_0, input_1, output_0)
// CHECK:      def mul_scalar_softmax_last_dim_mul_kernel(x_ptr, g_ptr, y_ptr):
// CHECK-NEXT:     r = tl.program_id(0) * 8 + tl.arange(0, 8)[:, None]
// CHECK-NEXT:     c = tl.arange(0, 256)[None, :]
// CHECK-NEXT:     x = tl.load(x_ptr + r * 256 + c)
// CHECK-NEXT:     d = x * 2.0
// CHECK-NEXT:     row_max = tl.reduce(d, 1, nan_maximum, keep_dims=True)
// CHECK-NEXT:     sub = d - row_max
// CHECK-NEXT:     exp = libdevice.exp(sub)
// CHECK-NEXT:     row_sum = tl.sum(exp, 1, keep_dims=True)
// CHECK-NEXT:     s = tl.div_rn(exp, row_sum)
// CHECK-NEXT:     b = tl.load(g_ptr + c)
// CHECK-NEXT:     y = s * b
// CHECK-NEXT:     tl.store(y_ptr + r * 256 + c, y)
func.func @rows(%x: tensor<1000x256xf32>, %g: tensor<256xf32>) -> tensor<1000x256xf32> {
  %d = fuel.mul_scalar %x {scalar = 2.0 : f64} : tensor<1000x256xf32>
  %s = fuel.softmax_last_dim %d : tensor<1000x256xf32>
  %b = fuel.broadcast_to %g : tensor<256xf32> -> tensor<1000x256xf32>
  %y = fuel.mul %s, %b : tensor<1000x256xf32>
  func.return %y : tensor<1000x256xf32>
}

// Few long rows are shared by programs: what these find goes through a temporary.
// CHECK:      # total_0: bf16[1000000] -> bf16[]
// CHECK-NEXT: #   temporary_2: ui8[{{[0-9]+}}]
// CHECK-NEXT: #   sum_all_pass_1_kernel[1x{{[0-9]+}}x1](input_0, temporary_2)
// CHECK-NEXT: #   sum_all_pass_2_kernel[1x1x1](output_0, temporary_2)
func.func @total(%x: tensor<1000000xbf16>) -> tensor<bf16> {
  %s = fuel.sum_all %x : tensor<1000000xbf16> -> tensor<bf16>
  func.return %s : tensor<bf16>
}

// An index out of range is told by the number of its op, and nothing outside is read.
// CHECK:      def index_select_kernel(x_ptr, j_ptr, y_ptr, status, check):
// CHECK:          inside = j < tl.full((), 5, tl.uint32)
// CHECK-NEXT:     outside = (i < 24) & ~inside
// CHECK-NEXT:     if tl.max(outside.to(tl.int32), 0) > 0:
// CHECK-NEXT:         tl.atomic_cas(status, 0, check)
// CHECK:          x = tl.load(x_ptr + {{.*}} + row * 8, live & inside, other=0)
func.func @lookup(%x: tensor<5x8xf32>, %j: tensor<3xui32>) -> tensor<3x8xf32> {
  %y = fuel.index_select %x, %j {dim = 0 : i64} : tensor<5x8xf32>, tensor<3xui32> -> tensor<3x8xf32>
  func.return %y : tensor<3x8xf32>
}
