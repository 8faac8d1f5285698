// SPDX-License-Identifier: MIT OR Apache-2.0
// The shaders of all runs, from IR that has runs, and from IR that has none.

// RUN: xdsl-opt -t fuel-kompute %s | filecheck %s
// RUN: xdsl-opt -p fuel-optimize %s | xdsl-opt -t fuel-kompute | filecheck %s

// CHECK:      // layer_0: bf16[8, 16], f32[8, 16] -> f32[8, 16]
// CHECK-NEXT: //   cast_add_relu[1x1x1](input_0, input_1, output_0, zero_bits=0)
// CHECK:      // cast_add_relu: [8, 16] points -> f32[8, 16]
// CHECK-NEXT: layout(local_size_x = 256, local_size_y = 1) in;
// CHECK-NEXT: layout(binding = 0) readonly buffer x_buffer { uvec2 x[]; };
// CHECK-NEXT: layout(binding = 1) readonly buffer b_buffer { vec4 b[]; };
// CHECK-NEXT: layout(binding = 2) coherent writeonly buffer out_y_buffer { vec4 out_y[]; };
// CHECK-NEXT: layout(push_constant) uniform Scalars { int zero_bits; };
// CHECK:      void main() {
// CHECK-NEXT:   precise float zero = intBitsToFloat(zero_bits);
// CHECK:        vec4 x_4 = fuel_bf16_4(x[i / 4]);
// CHECK-NEXT:   vec4 b_4 = b[i / 4];
// CHECK:          precise float a = x_4[lane] + b_4[lane];
// CHECK-NEXT:     precise float y = fuel_max(a, zero);
func.func @layer(%x: tensor<8x16xbf16>, %b: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %w = fuel.cast %x : tensor<8x16xbf16> -> tensor<8x16xf32>
  %a = fuel.add %w, %b : tensor<8x16xf32>
  %y = fuel.relu %a : tensor<8x16xf32>
  func.return %y : tensor<8x16xf32>
}

// CHECK:      // sums_0: f32[4], f32[9, 4] -> f32[4], f32[9, 4]
// CHECK-NEXT: //   scan[1x1x1](input_0, input_1, output_1, output_0)
// CHECK:      // scan: 9 steps at [4] points -> f32[4], f32[9, 4]
// CHECK:        for (uint count = 0; count < 9; count++) {
// CHECK-NEXT:     vec4 row_4 = row[(i + count * 4) / 4];
// CHECK:            precise float sum = c_now[lane] + row_4[lane];
func.func @sums(%h: tensor<4xf32>, %x: tensor<9x4xf32>) -> (tensor<4xf32>, tensor<9x4xf32>) {
  %last, %all = fuel.scan init(%c = %h : tensor<4xf32>) xs(%row = %x : tensor<9x4xf32>) length 9 -> (tensor<4xf32>, tensor<9x4xf32>) {
    %sum = fuel.add %c, %row : tensor<4xf32>
    fuel.scan_yield carry(%sum : tensor<4xf32>) ys(%sum : tensor<4xf32>)
  }
  func.return %last, %all : tensor<4xf32>, tensor<9x4xf32>
}

// CHECK:      // pick_0: f32[5, 4], ui32[2] -> f32[2, 4]
// CHECK-NEXT: //   status: i32[1]
// CHECK-NEXT: //   index_select[1x1x1](output_0, input_1, input_0, status, check=1)
// CHECK:          if (i_3 < 5u) {
// CHECK-NEXT:       uint x_2 = x[c + i_3 * 4];
// CHECK-NEXT:       y = x_2;
// CHECK-NEXT:     }
// CHECK-NEXT:     else status[0] = check;
func.func @pick(%x: tensor<5x4xf32>, %i: tensor<2xui32>) -> tensor<2x4xf32> {
  %y = fuel.index_select %x, %i {dim = 0 : i64} : tensor<5x4xf32>, tensor<2xui32> -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
