// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-optimize | filecheck %s
// RUN: xdsl-opt %s -p fuel-optimize,fuel-reuse-buffers | filecheck %s
// RUN: xdsl-opt %s -p fuel-optimize -o %t.mlir
// RUN: xdsl-opt %t.mlir -p fuel-optimize | diff %t.mlir -

// The state is written where it lies.
// CHECK-LABEL: @in_place
// CHECK:         fuel.run on #fuel.target<cpu, "numpy"> reuses array<i64: 0> (%c_1 = %c
func.func @in_place(%c: tensor<8x4xf32> {fuel.donated}, %s: tensor<1x4xf32>) -> (tensor<8x4xf32> {fuel.aliases = 0 : i64}) {
  %n = fuel.write_slice %c, %s {starts = array<i64: 2, 0>} : tensor<8x4xf32>, tensor<1x4xf32>
  func.return %n : tensor<8x4xf32>
}

// Twice over, and a reader of the old value that comes first.
// CHECK-LABEL: @reader_first
// CHECK:         reuses array<i64: {{(-1, 0|0, -1)}}> (
// CHECK:         fuel.kernel reduction "sum_dim"
// CHECK:         fuel.kernel movement "write_slice"
// CHECK:         fuel.kernel movement "write_slice"
func.func @reader_first(%c: tensor<8x4xf32> {fuel.donated}, %s: tensor<1x4xf32>) -> (tensor<8x4xf32> {fuel.aliases = 0 : i64}, tensor<4xf32>) {
  %n = fuel.write_slice %c, %s {starts = array<i64: 2, 0>} : tensor<8x4xf32>, tensor<1x4xf32>
  %m = fuel.write_slice %n, %s {starts = array<i64: 3, 0>} : tensor<8x4xf32>, tensor<1x4xf32>
  %y = fuel.sum_dim %c {dim = 0 : i64} : tensor<8x4xf32> -> tensor<4xf32>
  func.return %m, %y : tensor<8x4xf32>, tensor<4xf32>
}

// Not an argument that the caller keeps, not a value that is a result too, not one that depends on the write.
// CHECK-LABEL: @kept
// CHECK-NOT:     reuses
// CHECK-LABEL: @old_is_a_result
// CHECK-NOT:     reuses
// CHECK-LABEL: @reads_both
// CHECK-NOT:     reuses
// CHECK-LABEL: @reads_itself
// CHECK-NOT:     reuses
func.func @kept(%c: tensor<8x4xf32>, %s: tensor<1x4xf32>) -> tensor<8x4xf32> {
  %n = fuel.write_slice %c, %s {starts = array<i64: 2, 0>} : tensor<8x4xf32>, tensor<1x4xf32>
  func.return %n : tensor<8x4xf32>
}

func.func @old_is_a_result(%c: tensor<8x4xf32> {fuel.donated}, %s: tensor<1x4xf32>) -> (tensor<8x4xf32> {fuel.aliases = 0 : i64}, tensor<8x4xf32>) {
  %n = fuel.write_slice %c, %s {starts = array<i64: 2, 0>} : tensor<8x4xf32>, tensor<1x4xf32>
  func.return %n, %c : tensor<8x4xf32>, tensor<8x4xf32>
}

func.func @reads_both(%c: tensor<8x4xf32> {fuel.donated}, %s: tensor<1x4xf32>) -> (tensor<8x4xf32> {fuel.aliases = 0 : i64}, tensor<8x4xf32>) {
  %n = fuel.write_slice %c, %s {starts = array<i64: 2, 0>} : tensor<8x4xf32>, tensor<1x4xf32>
  %d = fuel.sub %n, %c : tensor<8x4xf32>
  func.return %n, %d : tensor<8x4xf32>, tensor<8x4xf32>
}

func.func @reads_itself(%c: tensor<8x4xf32> {fuel.donated}) -> (tensor<8x4xf32> {fuel.aliases = 0 : i64}) {
  %s = fuel.slice %c {dim = 0 : i64, start = 0 : i64, length = 4 : i64} : tensor<8x4xf32> -> tensor<4x4xf32>
  %n = fuel.write_slice %c, %s {starts = array<i64: 2, 0>} : tensor<8x4xf32>, tensor<4x4xf32>
  func.return %n : tensor<8x4xf32>
}

// In an arm, if nothing reads the value after the branch.
// CHECK-LABEL: @arms
// CHECK:         reuses array<i64: 0>
// CHECK-LABEL: @read_after_the_branch
// CHECK-NOT:     reuses
func.func @arms(%c: tensor<8x4xf32> {fuel.donated}, %s: tensor<1x4xf32>) -> (tensor<8x4xf32> {fuel.aliases = 0 : i64}) {
  %n = fuel.branch "d0"(%a = %c : tensor<8x4xf32>, %b = %s : tensor<1x4xf32>) -> tensor<8x4xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.write_slice %a, %b {starts = array<i64: 2, 0>} : tensor<8x4xf32>, tensor<1x4xf32>
    fuel.yield %0 : tensor<8x4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.neg %a : tensor<8x4xf32>
    fuel.yield %0 : tensor<8x4xf32>
  }
  func.return %n : tensor<8x4xf32>
}

func.func @read_after_the_branch(%c: tensor<8x4xf32> {fuel.donated}, %s: tensor<1x4xf32>) -> (tensor<8x4xf32> {fuel.aliases = 0 : i64}, tensor<8x4xf32>) {
  %n = fuel.branch "d0"(%a = %c : tensor<8x4xf32>, %b = %s : tensor<1x4xf32>) -> tensor<8x4xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.write_slice %a, %b {starts = array<i64: 2, 0>} : tensor<8x4xf32>, tensor<1x4xf32>
    fuel.yield %0 : tensor<8x4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.neg %a : tensor<8x4xf32>
    fuel.yield %0 : tensor<8x4xf32>
  }
  %d = fuel.sub %n, %c : tensor<8x4xf32>
  func.return %n, %d : tensor<8x4xf32>, tensor<8x4xf32>
}
