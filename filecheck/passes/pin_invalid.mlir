// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: not xdsl-opt -p 'fuel-optimize{place="relu=cpu","matmul=cpu"}' %s 2>&1 | filecheck %s --check-prefix NOTHING
// RUN: not xdsl-opt -p 'fuel-optimize{place="@main/relu=cpu","h=cpu"}' %s 2>&1 | filecheck %s --check-prefix NOTHING
// RUN: not xdsl-opt -p 'fuel-optimize{place="h=cuda:0"}' %s 2>&1 | filecheck %s --check-prefix DEVICE
// RUN: not xdsl-opt -p 'fuel-pin-ops{place="h"}' %s 2>&1 | filecheck %s --check-prefix TEXT
// RUN: not xdsl-opt -p 'fuel-pin-ops{place="h=cpu","h=cpu"}' %s 2>&1 | filecheck %s --check-prefix TWICE

// NOTHING: place: main has nothing called 'relu'; it has ops matmul; values h; decisions none; kernels matmul
// DEVICE: place 'h': cuda:0 is not in topology 'cpu'; it has cpu/numpy
// TEXT: place 'h': write a name and a device, as matmul=cuda:0
// TWICE: place 'h=cpu': h is placed already; give it once
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %h = fuel.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  func.return %h : tensor<4x4xf32>
}
