// SPDX-License-Identifier: MIT OR Apache-2.0
// `place` pins ops, values, decisions and kernels, each name being the first of these that there
// is; what is no op, value or decision waits in `fuel.place` for kernels to be formed.

// RUN: xdsl-opt -p 'fuel-pin-ops{topology="cpu+h100" place="fuel.matmul=cuda:0","%%h=cpu","d=cuda:0","@main/exp_neg=cuda:0"}' %s | filecheck %s
// RUN: xdsl-opt -p 'fuel-pin-ops{topology="cpu+h100" place="fuel.matmul=cuda:0","%%h=cpu","d=cuda:0","@main/exp_neg=cuda:0"},fuel-pin-ops{topology="cpu+h100" place="fuel.matmul=cuda:0","%%h=cpu","d=cuda:0","@main/exp_neg=cuda:0"}' %s | filecheck %s
// RUN: xdsl-opt -p 'fuel-pin-ops{topology="cpu+h100" place="exp_neg=cuda:0"},fuel-form-kernels,fuel-pin-kernels,fuel-pin-kernels' %s | filecheck %s --check-prefix KERNELS
// RUN: xdsl-opt -p 'fuel-optimize{topology="cpu+h100" place="exp_neg=cuda:0","matmul=cuda:0","d=cuda:0"}' %s | filecheck %s --check-prefix PLAN

// CHECK: module attributes {fuel.place = {"@main/exp_neg" = #fuel.device<cuda:0>}}
// KERNELS-NOT: fuel.place
// PLAN: module
// PLAN-NOT: fuel.place

// CHECK-LABEL: func.func @main
// KERNELS-LABEL: func.func @main
// PLAN-LABEL: func.func @main
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK: fuel.matmul {{.*}} {placement = #fuel.device<cpu>}
  // CHECK: fuel.matmul {{.*}} {placement = #fuel.device<cuda:0>}
  %h = fuel.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %p = fuel.matmul %h, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  // CHECK: fuel.branch "d"
  // CHECK: arm on #fuel.target<cuda:0, "triton">
  // CHECK-NOT: placement
  // CHECK: fuel.yield
  %b = fuel.branch "d"(%a = %x : tensor<4x4xf32>) -> tensor<4x4xf32>
  arm on #fuel.target<cpu, "numpy"> price 60000 {
    %t = fuel.tanh %a {placement = #fuel.device<cpu>} : tensor<4x4xf32>
    fuel.yield %t : tensor<4x4xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %t = fuel.sqrt %a : tensor<4x4xf32>
    fuel.yield %t : tensor<4x4xf32>
  }
  // KERNELS: fuel.kernel pointwise "exp_neg"{{.*}}
  // KERNELS: fuel.exp {{.*}}placement = #fuel.device<cuda:0>
  // PLAN: fuel.run on #fuel.target<cuda:0, "triton">
  // PLAN-NOT: "numpy"
  %s = fuel.exp %b : tensor<4x4xf32>
  %n = fuel.neg %s : tensor<4x4xf32>
  func.return %p, %n : tensor<4x4xf32>, tensor<4x4xf32>
}
