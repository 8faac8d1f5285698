// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-promote-dtypes | filecheck %s
// RUN: xdsl-opt %s -p fuel-promote-dtypes,fuel-promote-dtypes | filecheck %s
// RUN: xdsl-opt %s -p fuel-promote-dtypes 2>&1 | filecheck %s --check-prefix=LOG
// RUN: not xdsl-opt %s -p 'fuel-promote-dtypes{precision=exact}' 2>&1 | filecheck %s --check-prefix=EXACT
// RUN: not xdsl-opt %s -p 'fuel-promote-dtypes{topology=moon}' 2>&1 | filecheck %s --check-prefix=MOON

// LOG: fuel-promote-dtypes: 2 operands are cast up, losslessly
// EXACT: fuel-promote-dtypes: no target has a kernel for matmul of (f32, bf16), and precision=exact
// MOON: topology 'moon' is not known; the presets are cpu

// One cast serves all readers of a value.
// CHECK-LABEL: @matmuls
// CHECK-NEXT:    %0 = fuel.cast %b : tensor<8x8xbf16> -> tensor<8x8xf32>
// CHECK-NEXT:    %1 = fuel.matmul %a, %0 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:    %2 = fuel.matmul %1, %0 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:    func.return %2 : tensor<4x8xf32>
func.func @matmuls(%a: tensor<4x8xf32>, %b: tensor<8x8xbf16>) -> tensor<4x8xf32> {
  %0 = fuel.matmul %a, %b : tensor<4x8xf32>, tensor<8x8xbf16> -> tensor<4x8xf32>
  %1 = fuel.matmul %0, %b : tensor<4x8xf32>, tensor<8x8xbf16> -> tensor<4x8xf32>
  func.return %1 : tensor<4x8xf32>
}

// Kernels for one dtype, and ops that read masks or indices beside it, are there.
// CHECK-LABEL: @served
// CHECK-NEXT:    %0 = fuel.matmul %a, %b : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
// CHECK-NEXT:    %1 = fuel.gt %0, %a : tensor<4x8xbf16> -> tensor<4x8xi1>
// CHECK-NEXT:    %2 = fuel.where %1, %0, %a : tensor<4x8xi1>, tensor<4x8xbf16>
// CHECK-NEXT:    %3 = fuel.index_select %2, %i {dim = 0 : i64} : tensor<4x8xbf16>, tensor<2xui32> -> tensor<2x8xbf16>
// CHECK-NEXT:    func.return %3 : tensor<2x8xbf16>
func.func @served(%a: tensor<4x8xbf16>, %b: tensor<8x8xbf16>, %i: tensor<2xui32>) -> tensor<2x8xbf16> {
  %0 = fuel.matmul %a, %b : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
  %1 = fuel.gt %0, %a : tensor<4x8xbf16> -> tensor<4x8xi1>
  %2 = fuel.where %1, %0, %a : tensor<4x8xi1>, tensor<4x8xbf16>
  %3 = fuel.index_select %2, %i {dim = 0 : i64} : tensor<4x8xbf16>, tensor<2xui32> -> tensor<2x8xbf16>
  func.return %3 : tensor<2x8xbf16>
}

// Arms and bodies have casts of their own; an arm for a device outside the topology has none.
// CHECK-LABEL: @inside
// CHECK-NEXT:    %y = fuel.branch "mine"(%c = %a : tensor<4x8xf32>, %d = %b : tensor<8x8xbf16>) -> tensor<4x8xf32>
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT:      %z = fuel.scan init(%s = %c : tensor<4x8xf32>) consts(%k = %d : tensor<8x8xbf16>) length 2 -> tensor<4x8xf32> {
// CHECK-NEXT:        %0 = fuel.cast %k : tensor<8x8xbf16> -> tensor<8x8xf32>
// CHECK-NEXT:        %1 = fuel.matmul %s, %0 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:        fuel.scan_yield carry(%1 : tensor<4x8xf32>)
// CHECK-NEXT:      }
// CHECK-NEXT:      fuel.yield %z : tensor<4x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NEXT:      %0 = fuel.matmul %c, %d : tensor<4x8xf32>, tensor<8x8xbf16> -> tensor<4x8xf32>
// CHECK-NEXT:      fuel.yield %0 : tensor<4x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %y : tensor<4x8xf32>
func.func @inside(%a: tensor<4x8xf32>, %b: tensor<8x8xbf16>) -> tensor<4x8xf32> {
  %y = fuel.branch "mine"(%c = %a : tensor<4x8xf32>, %d = %b : tensor<8x8xbf16>) -> tensor<4x8xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %z = fuel.scan init(%s = %c : tensor<4x8xf32>) consts(%k = %d : tensor<8x8xbf16>) length 2 -> tensor<4x8xf32> {
      %0 = fuel.matmul %s, %k : tensor<4x8xf32>, tensor<8x8xbf16> -> tensor<4x8xf32>
      fuel.scan_yield carry(%0 : tensor<4x8xf32>)
    }
    fuel.yield %z : tensor<4x8xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %1 = fuel.matmul %c, %d : tensor<4x8xf32>, tensor<8x8xbf16> -> tensor<4x8xf32>
    fuel.yield %1 : tensor<4x8xf32>
  }
  func.return %y : tensor<4x8xf32>
}
