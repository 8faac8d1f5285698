// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-form-kernels,fuel-spill-values --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p fuel-form-kernels,fuel-spill-values,fuel-form-runs --split-input-file | filecheck %s --check-prefix=RUNS
// RUN: xdsl-opt %s -p fuel-form-kernels,fuel-spill-values,fuel-strip-plan --split-input-file | filecheck %s --check-prefix=STRIPPED

// Room for the weight and four values of 16 KiB, with an eighth to spare: those whose next use comes
// last wait on the host, and each kernel is a run.
// CHECK-LABEL: @skip
// CHECK:      %a = fuel.kernel
// CHECK:      %b = fuel.kernel
// CHECK:      %a_1 = fuel.move %a to #fuel.device<cpu> planned : tensor<64x64xf32>
// CHECK:      %c = fuel.kernel
// CHECK:      %b_1 = fuel.move %b to #fuel.device<cpu> planned : tensor<64x64xf32>
// CHECK-NOT:  fuel.move
// CHECK:      %f = fuel.kernel
// CHECK:      %b_2 = fuel.copy %b_1 to #fuel.device<cuda:0> planned : tensor<64x64xf32>
// CHECK:      %g = fuel.kernel matmul "matmul"(%f_1 = %f : tensor<64x64xf32>, %b_3 = %b_2 : tensor<64x64xf32>)
// CHECK:      %a_2 = fuel.copy %a_1 to #fuel.device<cuda:0> planned : tensor<64x64xf32>
// CHECK:      %h = fuel.kernel matmul "matmul"(%g_1 = %g : tensor<64x64xf32>, %a_3 = %a_2 : tensor<64x64xf32>)

// RUNS-LABEL: @skip
// RUNS:       %{{.*}} = fuel.run on #fuel.target<cuda:0, "triton">
// RUNS:       fuel.move
// RUNS:       fuel.run on #fuel.target<cuda:0, "triton">
// RUNS:       fuel.copy
// RUNS:       fuel.run on #fuel.target<cuda:0, "triton">

// STRIPPED-LABEL: @skip
// STRIPPED-NOT:   fuel.move
// STRIPPED-NOT:   fuel.copy
builtin.module attributes {fuel.topology = #fuel.topology<"small", [#fuel.target<cuda:0, "triton">, #fuel.target<cpu, "numpy">], {devices = [{name = "cuda:0", memory_bytes = 90000}, {name = "cpu"}], links = [{source = "cpu", target = "cuda:0", latency_ns = 10000, bytes_per_ns = 25.0}, {source = "cuda:0", target = "cpu", latency_ns = 10000, bytes_per_ns = 25.0}]}>} {
  func.func @skip(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %w = fuel.weight "w" : tensor<64x64xf32>
    %a = fuel.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %b = fuel.matmul %a, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %c = fuel.matmul %b, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %d = fuel.matmul %c, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %e = fuel.matmul %d, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %f = fuel.matmul %e, %c : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %g = fuel.matmul %f, %b : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %h = fuel.matmul %g, %a : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    func.return %h : tensor<64x64xf32>
  }
}

// -----

// There is room for all: nothing changes.
// CHECK-LABEL: @room
// CHECK-NOT:  fuel.move
builtin.module attributes {fuel.topology = #fuel.topology<"large", [#fuel.target<cuda:0, "triton">, #fuel.target<cpu, "numpy">], {devices = [{name = "cuda:0", memory_bytes = 900000}, {name = "cpu"}], links = [{source = "cpu", target = "cuda:0", latency_ns = 10000, bytes_per_ns = 25.0}, {source = "cuda:0", target = "cpu", latency_ns = 10000, bytes_per_ns = 25.0}]}>} {
  func.func @room(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %a = fuel.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %b = fuel.matmul %a, %a : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %c = fuel.matmul %b, %a : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    func.return %c : tensor<64x64xf32>
  }
}

// -----

// There is too little room for a single kernel: nothing changes, and loading it will say so.
// CHECK-LABEL: @none
// CHECK-NOT:  fuel.move
builtin.module attributes {fuel.topology = #fuel.topology<"tiny", [#fuel.target<cuda:0, "triton">, #fuel.target<cpu, "numpy">], {devices = [{name = "cuda:0", memory_bytes = 20000}, {name = "cpu"}], links = [{source = "cpu", target = "cuda:0", latency_ns = 10000, bytes_per_ns = 25.0}, {source = "cuda:0", target = "cpu", latency_ns = 10000, bytes_per_ns = 25.0}]}>} {
  func.func @none(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %a = fuel.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %b = fuel.matmul %a, %a : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %c = fuel.matmul %b, %a : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    func.return %c : tensor<64x64xf32>
  }
}
