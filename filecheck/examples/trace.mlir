// SPDX-License-Identifier: MIT OR Apache-2.0
// A trace of two calls: the file is JSON, and has the runs and kernels of each in order.

// RUN: fuel-run %s --random 0 --repeat 2 --trace %t.json | filecheck %s --check-prefix=OUT
// RUN: %python -m json.tool --indent 1 %t.json | filecheck %s
// RUN: not fuel-run %s --random 0 --trace %t.no/t.json 2>&1 | filecheck %s --check-prefix=NONE

// OUT: result0: f32[8, 16]

// CHECK:      "devices": {
// CHECK-NEXT:   "cpu": "{{.*}} threads"
// CHECK:      "name": "process_name",
// CHECK:      "name": "calls"
// CHECK:      "name": "cpu"
// CHECK:      "name": "memory",
// CHECK:      "resident":
// CHECK:      "name": "main",
// CHECK-NEXT: "cat": "call",
// CHECK:      "name": "run0",
// CHECK-NEXT: "cat": "run",
// CHECK:      "target": "cpu/numpy",
// CHECK-NEXT: "kernels": [
// CHECK-NEXT:   "matmul_relu",
// CHECK-NEXT:   "softmax_last_dim"
// CHECK:      "bytes": 3072
// CHECK:      "name": "matmul_relu",
// CHECK-NEXT: "cat": "kernel",
// CHECK:      "types": "f32[8, 16], f32[16, 16] -> f32[8, 16]",
// CHECK-NEXT: "bytes": 2048
// CHECK:      "name": "softmax_last_dim",
// CHECK:      "bytes": 1024
// CHECK:      "name": "main",
// CHECK:      "name": "softmax_last_dim",
// CHECK-NOT:  "name": "main",

// NONE: fuel-run: error: {{.*}}.no/t.json: No such file or directory

func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %0 = fuel.matmul %x, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %1 = fuel.relu %0 : tensor<8x16xf32>
  %2 = fuel.softmax_last_dim %1 : tensor<8x16xf32>
  func.return %2 : tensor<8x16xf32>
}

// RUN: fuel-run %s --random 0 --dispatches detailed | filecheck %s --check-prefix=SERVED
// SERVED:      matmul+relu (f32, f32, f32) of class {{.*}}: cpu/numpy tiles on {{.*}} threads
// SERVED-NEXT:   cpu/numpy tiles: {{[0-9,]+}} ns
// SERVED-NEXT:   cpu/numpy library: {{[0-9,]+}} ns
// SERVED-NEXT: softmax_last_dim (f32, f32) of class {{.*}}: cpu/numpy tiles on {{.*}} threads
