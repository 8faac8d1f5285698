// SPDX-License-Identifier: MIT OR Apache-2.0
// The stock xdsl-opt optimises every example; a second application changes nothing.

// RUN: xdsl-opt -p fuel-optimize %S/../../examples/mlp.mlir -o %t.mlp.mlir
// RUN: xdsl-opt -p fuel-optimize %t.mlp.mlir | diff %t.mlp.mlir -
// RUN: filecheck %s --check-prefix=MLP --input-file=%t.mlp.mlir
// MLP:      func.func @main(%x: tensor<64x784xf32> {fuel.name = "x"}) -> tensor<64x10xf32> {
// MLP-NEXT:   %{{.*}} = fuel.run on #fuel.target<cpu, "numpy">
// MLP:          fuel.weight "mlp.1.kernel" : tensor<784x512xf32>
// MLP:          fuel.kernel matmul "matmul_add_gelu"
// MLP:          fuel.kernel matmul "matmul_add_gelu"
// MLP:          fuel.kernel matmul "matmul_add"
// MLP:          fuel.kernel reduction "softmax_last_dim"
// MLP-NOT:    fuel.run
// MLP:        func.return

// RUN: xdsl-opt -p fuel-optimize %S/../../examples/transformer_block.mlir -o %t.block.mlir
// RUN: xdsl-opt -p fuel-optimize %t.block.mlir | diff %t.block.mlir -
// RUN: filecheck %s --check-prefix=BLOCK --input-file=%t.block.mlir
// BLOCK:      func.func @main
// BLOCK-NEXT:   %{{.*}} = fuel.run on #fuel.target<cpu, "numpy">
// BLOCK:          fuel.kernel reduction "rms_norm_last_dim_mul"
// BLOCK:          fuel.kernel movement "concat"
// BLOCK:          fuel.kernel pointwise "mul_mul_add"
// BLOCK:          fuel.kernel matmul "matmul_mul_scalar_masked_fill"
// BLOCK:          fuel.kernel reduction "softmax_last_dim"
// BLOCK:          fuel.kernel matmul "matmul_silu_mul"
// BLOCK:          fuel.kernel matmul "matmul_add"
// BLOCK-NOT:    fuel.run
// BLOCK:        func.return

// RUN: xdsl-opt -p fuel-optimize %S/../../examples/gated_recurrent_cell.mlir -o %t.gru.mlir
// RUN: xdsl-opt -p fuel-optimize %t.gru.mlir | diff %t.gru.mlir -
// RUN: filecheck %s --check-prefix=GRU --input-file=%t.gru.mlir
// GRU:      func.func @main
// GRU-NEXT:   %{{.*}} = fuel.run on #fuel.target<cpu, "numpy">
// GRU:          fuel.kernel scan
// GRU:            fuel.scan
// GRU-SAME:         length 48
// GRU-NOT:    fuel.run
// GRU:        func.return

// RUN: xdsl-opt -p fuel-optimize %S/../../examples/selective_scan.mlir -o %t.scan.mlir
// RUN: xdsl-opt -p fuel-optimize %t.scan.mlir | diff %t.scan.mlir -
// RUN: filecheck %s --check-prefix=SCAN --input-file=%t.scan.mlir
// SCAN:      func.func @main
// SCAN-NEXT:   %{{.*}} = fuel.run on #fuel.target<cpu, "numpy">
// SCAN:          fuel.kernel pointwise
// SCAN:          fuel.kernel scan
// SCAN:            fuel.scan
// SCAN-SAME:         length 128
// SCAN:          fuel.kernel pointwise "mul_add"
// SCAN-NOT:    fuel.run
// SCAN:        func.return

// The arms that a person wrote stay, and each becomes a run.
// RUN: xdsl-opt -p fuel-optimize %S/../../examples/nested_branch.mlir -o %t.branch.mlir
// RUN: xdsl-opt -p fuel-optimize %t.branch.mlir | diff %t.branch.mlir -
// RUN: filecheck %s --check-prefix=BRANCH --input-file=%t.branch.mlir
// BRANCH:      func.func @main
// BRANCH-NEXT:   %{{.*}} = fuel.run on #fuel.target<cpu, "numpy">
// BRANCH:        fuel.branch "softmax"
// BRANCH-NEXT:   arm on #fuel.target<cpu, "numpy"> price 60000 {
// BRANCH-NEXT:     %{{.*}} = fuel.run on
// BRANCH:        arm on #fuel.target<cpu, "numpy"> price 75000 {
// BRANCH-NEXT:     %{{.*}} = fuel.run on
// BRANCH:          fuel.branch "divide"
// BRANCH-NEXT:     arm on #fuel.target<cpu, "numpy"> price 40000 {
// BRANCH-NEXT:       %{{.*}} = fuel.run on
// BRANCH:          arm on #fuel.target<cpu, "numpy"> price 55000 {
// BRANCH-NEXT:       %{{.*}} = fuel.run on
// BRANCH:        fuel.run on
// BRANCH:        func.return
