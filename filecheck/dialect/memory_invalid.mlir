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
