// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | xdsl-opt | filecheck %s

func.func @constants() {
  %i1 = fuel.const true -> tensor<4xi1>
  %i8 = fuel.const -128 : i8 -> tensor<i8>
  %i16 = fuel.const 32767 : i16 -> tensor<4xi16>
  %i32 = fuel.const -2147483648 : i32 -> tensor<4xi32>
  %i64 = fuel.const 9223372036854775807 : i64 -> tensor<4xi64>
  %ui8 = fuel.const 255 : ui8 -> tensor<4xui8>
  %ui32 = fuel.const 4294967295 : ui32 -> tensor<4xui32>
  %nan = fuel.const 0x7FC0 : bf16 -> tensor<4xbf16>
  %negative_nan = fuel.const 0xFE00 : f16 -> tensor<4xf16>
  %inf = fuel.const 0xFF800000 : f32 -> tensor<4xf32>
  %large = fuel.const 16777216.0 : f32 -> tensor<4096x4096xf32>
  %zero = fuel.const -0.0 : f64 -> tensor<4xf64>
  %f8 = fuel.const 448.0 : f8E4M3FN -> tensor<4xf8E4M3FN>
  %f8_inf = fuel.const 0x7C : f8E5M2 -> tensor<4xf8E5M2>
  %scale = fuel.const 0.5 : f8E8M0FNU -> tensor<4xf8E8M0FNU>
  %f6 = fuel.const 7.5 : f6E2M3FN -> tensor<4xf6E2M3FN>
  %f6_wide = fuel.const -28.0 : f6E3M2FN -> tensor<4xf6E3M2FN>
  %f4 = fuel.const 6.0 : f4E2M1FN -> tensor<4xf4E2M1FN>
  %bytes = fuel.const #fuel.bytes<"0x0100c0ff000080ff"> -> tensor<2xf32>
  %none = fuel.const #fuel.bytes<"0x"> -> tensor<0xf64>
  func.return
}

func.func @leaves() {
  %weight = fuel.weight "mlp.0.w" : tensor<16x4xbf16>
  %other = fuel.weight "\C3\A9" {placement = #fuel.device<cuda:0>, why = "test"} : tensor<2xf32>
  %iota = fuel.iota : tensor<5xf32>
  func.return
}

func.func @transfers(%x: tensor<4xf32>) {
  %copy = fuel.copy %x to #fuel.device<cuda:0> : tensor<4xf32>
  %planned = fuel.copy %copy to #fuel.device<cpu> planned : tensor<4xf32>
  %move = fuel.move %x to #fuel.device<vulkan:1> {why = "test"} : tensor<4xf32>
  func.return
}

func.func @writes(%x: tensor<8x4xf32>, %s: tensor<2x3xf32>, %at: tensor<ui32>, %wide: tensor<i64>) {
  %static = fuel.write_slice %x, %s {starts = array<i64: 6, 1>} : tensor<8x4xf32>, tensor<2x3xf32>
  %dynamic = fuel.write_slice_doff %x, %s, %wide {starts = array<i64: 0, 1>, axis = 0 : i64} : tensor<8x4xf32>, tensor<2x3xf32>, tensor<i64>
  %ring = fuel.write_slice_rotating %x, %s, %at {starts = array<i64: 0, 1>, axis = 0 : i64, modulus = 7 : i64} : tensor<8x4xf32>, tensor<2x3xf32>, tensor<ui32>
  func.return
}

func.func @state(%x: tensor<4xf32> {fuel.donated, fuel.class = "state"}, %y: tensor<4xf32> {fuel.class = "transient"}) -> (tensor<4xf32> {fuel.aliases = 0 : i64}, tensor<4xf32>) {
  %a, %b = fuel.run on #fuel.target<cpu, "numpy"> reuses array<i64: 0, -1> (%p = %x : tensor<4xf32>, %q = %y : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    fuel.yield %p, %q : tensor<4xf32>, tensor<4xf32>
  }
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}

builtin.module attributes {"fuel.topology" = #fuel.topology<"two", [#fuel.target<cpu, "numpy">, #fuel.target<cuda:0, "triton">]>} {
}

// CHECK: func.func @constants() {
// CHECK-NEXT:   %i1 = fuel.const true -> tensor<4xi1>
// CHECK-NEXT:   %i8 = fuel.const -128 : i8 -> tensor<i8>
// CHECK-NEXT:   %i16 = fuel.const 32767 : i16 -> tensor<4xi16>
// CHECK-NEXT:   %i32 = fuel.const -2147483648 : i32 -> tensor<4xi32>
// CHECK-NEXT:   %i64 = fuel.const 9223372036854775807 : i64 -> tensor<4xi64>
// CHECK-NEXT:   %ui8 = fuel.const 255 : ui8 -> tensor<4xui8>
// CHECK-NEXT:   %ui32 = fuel.const 4294967295 : ui32 -> tensor<4xui32>
// CHECK-NEXT:   %nan = fuel.const 0x7fc0 : bf16 -> tensor<4xbf16>
// CHECK-NEXT:   %negative_nan = fuel.const 0xfe00 : f16 -> tensor<4xf16>
// CHECK-NEXT:   %inf = fuel.const 0xff800000 : f32 -> tensor<4xf32>
// CHECK-NEXT:   %large = fuel.const 0x4B800000 : f32 -> tensor<4096x4096xf32>
// CHECK-NEXT:   %zero = fuel.const -0.000000e+00 : f64 -> tensor<4xf64>
// CHECK-NEXT:   %f8 = fuel.const 4.480000e+02 : f8E4M3FN -> tensor<4xf8E4M3FN>
// CHECK-NEXT:   %f8_inf = fuel.const 0x7c : f8E5M2 -> tensor<4xf8E5M2>
// CHECK-NEXT:   %scale = fuel.const 5.000000e-01 : f8E8M0FNU -> tensor<4xf8E8M0FNU>
// CHECK-NEXT:   %f6 = fuel.const 7.500000e+00 : f6E2M3FN -> tensor<4xf6E2M3FN>
// CHECK-NEXT:   %f6_wide = fuel.const -2.800000e+01 : f6E3M2FN -> tensor<4xf6E3M2FN>
// CHECK-NEXT:   %f4 = fuel.const 6.000000e+00 : f4E2M1FN -> tensor<4xf4E2M1FN>
// CHECK-NEXT:   %bytes = fuel.const #fuel.bytes<"0x0100C0FF000080FF"> -> tensor<2xf32>
// CHECK-NEXT:   %none = fuel.const #fuel.bytes<"0x"> -> tensor<0xf64>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @leaves() {
// CHECK-NEXT:   %weight = fuel.weight "mlp.0.w" : tensor<16x4xbf16>
// CHECK-NEXT:   %other = fuel.weight "\C3\A9" {why = "test", placement = #fuel.device<cuda:0>} : tensor<2xf32>
// CHECK-NEXT:   %iota = fuel.iota : tensor<5xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @transfers(%x: tensor<4xf32>) {
// CHECK-NEXT:   %copy = fuel.copy %x to #fuel.device<cuda:0> : tensor<4xf32>
// CHECK-NEXT:   %planned = fuel.copy %copy to #fuel.device<cpu> planned : tensor<4xf32>
// CHECK-NEXT:   %move = fuel.move %x to #fuel.device<vulkan:1> {why = "test"} : tensor<4xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @writes(
// CHECK-NEXT:   %static = fuel.write_slice %x, %s {starts = array<i64: 6, 1>} : tensor<8x4xf32>, tensor<2x3xf32>
// CHECK-NEXT:   %dynamic = fuel.write_slice_doff %x, %s, %wide {starts = array<i64: 0, 1>, axis = 0 : i64} : tensor<8x4xf32>, tensor<2x3xf32>, tensor<i64>
// CHECK-NEXT:   %ring = fuel.write_slice_rotating %x, %s, %at {starts = array<i64: 0, 1>, axis = 0 : i64, modulus = 7 : i64} : tensor<8x4xf32>, tensor<2x3xf32>, tensor<ui32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @state(%x: tensor<4xf32> {fuel.donated, fuel.class = "state"}, %y: tensor<4xf32> {fuel.class = "transient"}) -> (tensor<4xf32> {fuel.aliases = 0 : i64}, tensor<4xf32>) {
// CHECK-NEXT:   %a, %b = fuel.run on #fuel.target<cpu, "numpy"> reuses array<i64: 0, -1> (
// CHECK:      builtin.module attributes {fuel.topology = #fuel.topology<"two", [#fuel.target<cpu, "numpy">, #fuel.target<cuda:0, "triton">]>} {
// CHECK-NEXT: }
// CHECK-NEXT: }
