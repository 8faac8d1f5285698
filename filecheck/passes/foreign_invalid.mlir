// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-optimize --verify-diagnostics --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p fuel-form-kernels --verify-diagnostics --split-input-file | filecheck %s

// Effects and jumps are nothing that a plan could keep in order.
// CHECK: @blocks has several blocks; fuel plans functions of one
func.func @blocks(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  %a = fuel.exp %x : tensor<4xf32>
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  %n = fuel.neg %a : tensor<4xf32>
  func.return %n : tensor<4xf32>
^bb2:
  %m = fuel.abs %a : tensor<4xf32>
  func.return %m : tensor<4xf32>
}

// -----

// CHECK: test.op is not an op of fuel; @mixed must hold fuel ops alone to be planned
func.func @mixed(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = fuel.exp %x : tensor<4xf32>
  "test.op"(%a) : (tensor<4xf32>) -> ()
  func.return %a : tensor<4xf32>
}

// -----

// In an arm neither.
// CHECK: test.op is not an op of fuel; @arm must hold fuel ops alone to be planned
func.func @arm(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> {
    "test.op"(%a) : (tensor<4xf32>) -> ()
    fuel.yield %a : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    fuel.yield %a : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// -----

// What holds nothing of fuel is left alone.
// CHECK: func.func @other
// CHECK-NEXT: %0 = arith.addi
func.func @other(%x: i32) -> i32 {
  %0 = arith.addi %x, %x : i32
  func.return %0 : i32
}
