// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @f() {
  %0 = fuel.const #fuel.bytes<"0x000000"> -> tensor<1xf32>
  func.return
}

// CHECK: const: 3 bytes do not make tensor<1xf32>, which takes 4

// -----

func.func @f() {
  %0 = fuel.const #fuel.bytes<"0x0002"> -> tensor<2xi1>
  func.return
}

// CHECK: const: the bytes of tensor<2xi1> must be 0 or 1

// -----

func.func @f() {
  %0 = fuel.const #fuel.bytes<"0x00"> -> tensor<1xf4E2M1FN>
  func.return
}

// CHECK: const: f4E2M1FN is packed; hold its bytes in a tensor of ui8

// -----

func.func @f() {
  %0 = fuel.const 1.0 : f64 -> tensor<1xf32>
  func.return
}

// CHECK: const: dtype mismatch: the value is f64, the result f32

// -----

func.func @f() {
  %0 = fuel.const dense<1.0> : tensor<1xf32> -> tensor<1xf32>
  func.return
}

// CHECK: const: expected a number or #fuel.bytes, got

// -----

func.func @f() {
  %0 = fuel.const #fuel.bytes<"00"> -> tensor<1xui8>
  func.return
}

// CHECK: bytes are written as "0x" and an even number of hex digits

// -----

func.func @f() {
  %0 = fuel.weight "" : tensor<1xui8>
  func.return
}

// CHECK: weight: needs a name

// -----

func.func @f() {
  %0 = fuel.iota : tensor<2x2xf32>
  func.return
}

// CHECK: iota: gives rank 1, not {{\[2, 2\]}}

// -----

func.func @f() {
  %0 = fuel.iota : tensor<2xi32>
  func.return
}

// CHECK: iota: unsupported dtype i32; it is defined for f32

// -----

func.func @f(%x: tensor<2xf32>) {
  %0 = fuel.copy %x to "cuda" : tensor<2xf32>
  func.return
}

// CHECK: "cuda" should be of base attribute fuel.device

// -----

"test.op"() {a = #fuel.arm<#fuel.target<cpu, "numpy"> price 9223372036854775808>} : () -> ()

// CHECK: a price is at most 9223372036854775807 nanoseconds, got 9223372036854775808

// -----

func.func @f() {
  %0 = fuel.iota : tensor<4611686018427387904xf32>
  func.return
}

// CHECK: the shape {{\[4611686018427387904\]}} is too large; a tensor has below 2^60 elements

// -----

func.func @f() {
  %0 = fuel.weight "w" : tensor<99999999999999999999999x0xf32>
  func.return
}

// CHECK: the shape {{\[99999999999999999999999, 0\]}} is too large; a tensor has below 2^60 elements

// -----

func.func @f() {
  %0 = fuel.weight "\FF" : tensor<2xf32>
  func.return
}

// CHECK: the bytes of this string are not UTF-8

// -----

func.func @f(%x: tensor<8x4xf32>, %s: tensor<2x3xf32>, %at: tensor<ui32>, %four: tensor<4xui32>, %wide: tensor<i64>, %h: tensor<2x3xf16>, %v: tensor<4xf32>, %none: tensor<0x4xf32>) {
  %0 = fuel.write_slice %x, %s {starts = array<i64: 7, 0>} : tensor<8x4xf32>, tensor<2x3xf32>
  func.return
}

// CHECK: write_slice: the source {{\[2, 3\]}} at {{\[7, 0\]}} reaches beyond the destination {{\[8, 4\]}} at dim 0

// -----

func.func @f(%x: tensor<8x4xf32>, %s: tensor<2x3xf32>, %at: tensor<ui32>, %four: tensor<4xui32>, %wide: tensor<i64>, %h: tensor<2x3xf16>, %v: tensor<4xf32>, %none: tensor<0x4xf32>) {
  %0 = fuel.write_slice %x, %v {starts = array<i64: 0, 0>} : tensor<8x4xf32>, tensor<4xf32>
  func.return
}

// CHECK: write_slice: rank mismatch: a source {{\[4\]}} at starts {{\[0, 0\]}} in a destination {{\[8, 4\]}}; all three have as many dims

// -----

func.func @f(%x: tensor<8x4xf32>, %s: tensor<2x3xf32>, %at: tensor<ui32>, %four: tensor<4xui32>, %wide: tensor<i64>, %h: tensor<2x3xf16>, %v: tensor<4xf32>, %none: tensor<0x4xf32>) {
  %0 = fuel.write_slice %x, %h {starts = array<i64: 0, 0>} : tensor<8x4xf32>, tensor<2x3xf16>
  func.return
}

// CHECK: write_slice: dtype mismatch: f32, f16; insert a cast

// -----

func.func @f(%x: tensor<8x4xf32>, %s: tensor<2x3xf32>, %at: tensor<ui32>, %four: tensor<4xui32>, %wide: tensor<i64>, %h: tensor<2x3xf16>, %v: tensor<4xf32>, %none: tensor<0x4xf32>) {
  %0 = fuel.write_slice_doff %x, %s, %four {starts = array<i64: 0, 0>, axis = 0 : i64} : tensor<8x4xf32>, tensor<2x3xf32>, tensor<4xui32>
  func.return
}

// CHECK: write_slice_doff: the position is one number, of shape [], not {{\[4\]}}

// -----

func.func @f(%x: tensor<8x4xf32>, %s: tensor<2x3xf32>, %at: tensor<ui32>, %four: tensor<4xui32>, %wide: tensor<i64>, %h: tensor<2x3xf16>, %v: tensor<4xf32>, %none: tensor<0x4xf32>) {
  %0 = fuel.write_slice_doff %x, %s, %at {starts = array<i64: 0, 0>, axis = 2 : i64} : tensor<8x4xf32>, tensor<2x3xf32>, tensor<ui32>
  func.return
}

// CHECK: write_slice_doff: dim 2 is out of bounds for shape {{\[8, 4\]}}

// -----

func.func @f(%x: tensor<8x4xf32>, %s: tensor<2x3xf32>, %at: tensor<ui32>, %four: tensor<4xui32>, %wide: tensor<i64>, %h: tensor<2x3xf16>, %v: tensor<4xf32>, %none: tensor<0x4xf32>) {
  %0 = fuel.write_slice_doff %x, %s, %at {starts = array<i64: 1, 0>, axis = 0 : i64} : tensor<8x4xf32>, tensor<2x3xf32>, tensor<ui32>
  func.return
}

// CHECK: write_slice_doff: the start along axis 0 comes with the position; give 0

// -----

func.func @f(%x: tensor<8x4xf32>, %s: tensor<2x3xf32>, %at: tensor<ui32>, %four: tensor<4xui32>, %wide: tensor<i64>, %h: tensor<2x3xf16>, %v: tensor<4xf32>, %none: tensor<0x4xf32>) {
  %0 = fuel.write_slice_doff %x, %none, %at {starts = array<i64: 0, 0>, axis = 0 : i64} : tensor<8x4xf32>, tensor<0x4xf32>, tensor<ui32>
  func.return
}

// CHECK: write_slice_doff: the source {{\[0, 4\]}} is empty along 0

// -----

func.func @f(%x: tensor<8x4xf32>, %s: tensor<2x3xf32>, %at: tensor<ui32>, %four: tensor<4xui32>, %wide: tensor<i64>, %h: tensor<2x3xf16>, %v: tensor<4xf32>, %none: tensor<0x4xf32>) {
  %0 = fuel.write_slice_rotating %x, %s, %wide {starts = array<i64: 0, 0>, axis = 0 : i64, modulus = 4 : i64} : tensor<8x4xf32>, tensor<2x3xf32>, tensor<i64>
  func.return
}

// CHECK: write_slice_rotating: the position must be ui32, got i64

// -----

func.func @f(%x: tensor<8x4xf32>, %s: tensor<2x3xf32>, %at: tensor<ui32>, %four: tensor<4xui32>, %wide: tensor<i64>, %h: tensor<2x3xf16>, %v: tensor<4xf32>, %none: tensor<0x4xf32>) {
  %0 = fuel.write_slice_rotating %x, %s, %at {starts = array<i64: 0, 0>, axis = 0 : i64, modulus = 9 : i64} : tensor<8x4xf32>, tensor<2x3xf32>, tensor<ui32>
  func.return
}

// CHECK: write_slice_rotating: a ring of 9 holds the source's 2 elements along axis 0 and has room in the destination's 8; it does not here

// -----

func.func @f(%x: tensor<8x4xf32>, %v: tensor<4xf32>) {
  %0 = fuel.run on #fuel.target<cpu, "numpy"> reuses array<i64: 0, 1> (%p = %x : tensor<8x4xf32>, %q = %v : tensor<4xf32>) -> (tensor<8x4xf32>) {
    fuel.yield %p : tensor<8x4xf32>
  }
  func.return
}

// CHECK: run: reuses has 2 numbers for 1 results

// -----

func.func @f(%x: tensor<8x4xf32>, %v: tensor<4xf32>) {
  %0 = fuel.run on #fuel.target<cpu, "numpy"> reuses array<i64: 2> (%p = %x : tensor<8x4xf32>, %q = %v : tensor<4xf32>) -> (tensor<8x4xf32>) {
    fuel.yield %p : tensor<8x4xf32>
  }
  func.return
}

// CHECK: run: result 0 reuses operand 2 of 2

// -----

func.func @f(%x: tensor<8x4xf32>, %v: tensor<4xf32>) {
  %0 = fuel.run on #fuel.target<cpu, "numpy"> reuses array<i64: 1> (%p = %x : tensor<8x4xf32>, %q = %v : tensor<4xf32>) -> (tensor<8x4xf32>) {
    fuel.yield %p : tensor<8x4xf32>
  }
  func.return
}

// CHECK: run: result 0 is tensor<8x4xf32>; it cannot reuse operand 1, tensor<4xf32>

// -----

func.func @f(%x: tensor<8x4xf32>, %v: tensor<4xf32>) {
  %0, %1 = fuel.run on #fuel.target<cpu, "numpy"> reuses array<i64: 0, 0> (%p = %x : tensor<8x4xf32>, %q = %v : tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
    fuel.yield %p, %p : tensor<8x4xf32>, tensor<8x4xf32>
  }
  func.return
}

// CHECK: run: results 0 and 1 both reuse operand 0
