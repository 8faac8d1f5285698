// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels as their target launches them: rows expanded, constant factors in memory, the bodies of
// scans formed into kernels; vectors become sums on Triton alone, and runs of NumPy stay.

// RUN: xdsl-opt -p 'fuel-optimize{topology="cpu+h100" place="matmul=cuda:0","scan=cuda:0"},fuel-legalize-kernels' %s | filecheck %s --check-prefixes=LAUNCHED,TRITON
// RUN: xdsl-opt -p 'fuel-optimize{topology="cpu+h100" place="matmul=cuda:0","scan=cuda:0"},fuel-legalize-kernels,fuel-legalize-kernels' %s | filecheck %s --check-prefixes=LAUNCHED,TRITON
// RUN: xdsl-opt -p 'fuel-optimize{topology="cpu+vulkan" place="matmul=vulkan:0","scan=vulkan:0"},fuel-legalize-kernels' %s | filecheck %s --check-prefixes=LAUNCHED,KOMPUTE
// RUN: xdsl-opt -p 'fuel-optimize{topology=cpu},fuel-legalize-kernels' %s | filecheck %s --check-prefix=NUMPY

// LAUNCHED-LABEL: func.func @main
// LAUNCHED:      %[[C:[^ ]+]] = fuel.const 2.000000e+00 : f32 -> tensor<2x3xf32>
// LAUNCHED-NEXT: %[[D:[^ ]+]] = fuel.const 3.000000e+00 : f32 -> tensor<3x2xf32>
// LAUNCHED-NEXT: fuel.kernel matmul "matmul"(%{{.*}} = %[[C]] : tensor<2x3xf32>, %{{.*}} = %[[D]] : tensor<3x2xf32>)
// LAUNCHED:      fuel.kernel scan "scan"
// LAUNCHED-NEXT: fuel.scan init
// LAUNCHED-NEXT: fuel.kernel matmul "matmul_tanh"
// LAUNCHED-NEXT: fuel.matmul
// LAUNCHED-NEXT: fuel.tanh
// LAUNCHED-NEXT: fuel.yield
// LAUNCHED-NEXT: }
// LAUNCHED-NEXT: fuel.kernel reduction "softmax_last_dim"
// LAUNCHED-NEXT: fuel.reduce_max_to
// LAUNCHED-NOT:  fuel.softmax_last_dim
// LAUNCHED:      fuel.scan_yield
// TRITON:        fuel.kernel reduction "matmul"
// TRITON-NEXT:   fuel.transpose
// TRITON-NEXT:   fuel.broadcast_to
// TRITON-NEXT:   fuel.mul
// TRITON-NEXT:   fuel.reduce_sum_to
// KOMPUTE:       fuel.kernel matmul "matmul"
// KOMPUTE-NEXT:  fuel.matmul

// NUMPY:         fuel.scan init
// NUMPY-NEXT:    fuel.matmul
// NUMPY-NEXT:    fuel.tanh
// NUMPY-NEXT:    fuel.softmax_last_dim
func.func @main(%x: tensor<1x3xf32>, %w: tensor<3x3xf32>) -> (tensor<1x3xf32>, tensor<2x2xf32>, tensor<3x3xf32>) {
  %v = fuel.matmul %x, %w : tensor<1x3xf32>, tensor<3x3xf32> -> tensor<1x3xf32>
  %c = fuel.const 2.0 : f32 -> tensor<2x3xf32>
  %d = fuel.const 3.0 : f32 -> tensor<3x2xf32>
  %f = fuel.matmul %c, %d : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  %s = fuel.scan init(%i = %w : tensor<3x3xf32>) length 4 -> tensor<3x3xf32> {
    %m = fuel.matmul %i, %i : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
    %t = fuel.tanh %m : tensor<3x3xf32>
    %u = fuel.softmax_last_dim %t : tensor<3x3xf32>
    fuel.scan_yield carry(%u : tensor<3x3xf32>)
  }
  func.return %v, %f, %s : tensor<1x3xf32>, tensor<2x2xf32>, tensor<3x3xf32>
}
