// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-strip-plan --verify-diagnostics | filecheck %s

// CHECK: branch id 'd0' is used twice in @twice
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.branch "d0"(%b = %a : tensor<4xf32>) -> tensor<4xf32>
    arm on #fuel.target<cpu, "numpy"> {
      fuel.yield %b : tensor<4xf32>
    }
    fuel.yield %0 : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
