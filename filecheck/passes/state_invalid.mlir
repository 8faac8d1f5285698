// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-strip-plan --verify-diagnostics --split-input-file | filecheck %s


func.func @f(%x: tensor<4xf32> {fuel.donated}) -> (tensor<4xf32>) {
  func.return %x : tensor<4xf32>
}

// CHECK: @f: argument 0 is donated, but no result says what it is in the next call: give that result {fuel.aliases = 0 : i64}

// -----

func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32> {fuel.aliases = 0 : i64}) {
  func.return %x : tensor<4xf32>
}

// CHECK: @f: result 0 aliases argument 0, which is not donated; donated are none

// -----

func.func @f(%x: tensor<4xf32> {fuel.donated}) -> (tensor<4xf32> {fuel.aliases = 0 : i64}, tensor<4xf32> {fuel.aliases = 0 : i64}) {
  func.return %x, %x : tensor<4xf32>, tensor<4xf32>
}

// CHECK: @f: result 1 aliases argument 0, and so does result 0; a donated argument has one next value

// -----

func.func @f(%x: tensor<4xf32> {fuel.donated = 1 : i64}) -> (tensor<4xf32> {fuel.aliases = 0 : i64}) {
  func.return %x : tensor<4xf32>
}

// CHECK: @f: argument 0: fuel.donated stands alone, it has no value; got 1 : i64

// -----

func.func @f(%x: tensor<4xf32> {fuel.donated}) -> (tensor<4xf32> {fuel.aliases = 0 : i32}) {
  func.return %x : tensor<4xf32>
}

// CHECK: @f: result 0: fuel.aliases is the number of an argument, an i64, not 0 : i32

// -----

func.func @f(%x: tensor<4xf32> {fuel.class = "shared"}) -> (tensor<4xf32>) {
  func.return %x : tensor<4xf32>
}

// CHECK: @f: argument 0: fuel.class must be "transient" here, got "shared": "state" is the class of donated arguments, "transient" of all others, and "shared" that of fuel.weight and fuel.const

// -----

func.func @f(%x: tensor<4xf32> {fuel.aliases = 0 : i64}) -> (tensor<4xf32>) {
  func.return %x : tensor<4xf32>
}

// CHECK: @f: argument 0 has fuel.aliases; it is for results: use fuel.donated

// -----

func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32> {fuel.donated}) {
  func.return %x : tensor<4xf32>
}

// CHECK: @f: result 0 has fuel.donated; it is for arguments: use fuel.aliases

// -----

func.func @f(%x: tensor<4xf32> {fuel.donated}, %y: tensor<2xf32>) -> (tensor<2xf32> {fuel.aliases = 0 : i64}) {
  func.return %y : tensor<2xf32>
}

// CHECK: @f: result 0 is tensor<2xf32>; it cannot alias argument 0, tensor<4xf32>
