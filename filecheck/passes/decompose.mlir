// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p 'fuel-decompose{ops=softmax_last_dim,rms_norm_last_dim}' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-decompose{ops=softmax_last_dim,rms_norm_last_dim},fuel-decompose{ops=softmax_last_dim,rms_norm_last_dim}' | filecheck %s
// RUN: xdsl-opt %s -p fuel-decompose | filecheck %s --check-prefix=SERVED
// RUN: not xdsl-opt %s -p 'fuel-decompose{ops=add}' 2>&1 | filecheck %s --check-prefix=NAME

// NAME: fuel-decompose: 'add' has no decomposition; these have: softmax_last_dim

// SERVED: fuel.softmax_last_dim
// SERVED: fuel.rms_norm_last_dim
// CHECK-LABEL: @rows
// CHECK-NEXT:    %0 = fuel.reduce_max_to %x : tensor<4x8xf32> -> tensor<4x1xf32>
// CHECK-NEXT:    %1 = fuel.broadcast_to %0 : tensor<4x1xf32> -> tensor<4x8xf32>
// CHECK-NEXT:    %2 = fuel.sub %x, %1 : tensor<4x8xf32>
// CHECK-NEXT:    %3 = fuel.exp %2 : tensor<4x8xf32>
// CHECK-NEXT:    %4 = fuel.reduce_sum_to %3 : tensor<4x8xf32> -> tensor<4x1xf32>
// CHECK-NEXT:    %5 = fuel.broadcast_to %4 : tensor<4x1xf32> -> tensor<4x8xf32>
// CHECK-NEXT:    %6 = fuel.div %3, %5 : tensor<4x8xf32>
// CHECK-NEXT:    %7 = fuel.sqr %6 {placement = #fuel.device<cpu>} : tensor<4x8xf32>
// CHECK-NEXT:    %8 = fuel.const 8.000000e+00 : f32 {placement = #fuel.device<cpu>} -> tensor<4x1xf32>
// CHECK-NEXT:    %9 = fuel.reduce_sum_to %7 {placement = #fuel.device<cpu>} : tensor<4x8xf32> -> tensor<4x1xf32>
// CHECK-NEXT:    %10 = fuel.div %9, %8 {placement = #fuel.device<cpu>} : tensor<4x1xf32>
// CHECK-NEXT:    %11 = fuel.add_scalar %10 {scalar = 1.000000e-06 : f64, placement = #fuel.device<cpu>} : tensor<4x1xf32>
// CHECK-NEXT:    %12 = fuel.rsqrt %11 {placement = #fuel.device<cpu>} : tensor<4x1xf32>
// CHECK-NEXT:    %13 = fuel.broadcast_to %12 {placement = #fuel.device<cpu>} : tensor<4x1xf32> -> tensor<4x8xf32>
// CHECK-NEXT:    %14 = fuel.mul %6, %13 {placement = #fuel.device<cpu>} : tensor<4x8xf32>
// CHECK-NEXT:    func.return %14 : tensor<4x8xf32>
func.func @rows(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = fuel.softmax_last_dim %x : tensor<4x8xf32>
  %1 = fuel.rms_norm_last_dim %0 {eps = 1.0e-6 : f64, placement = #fuel.device<cpu>} : tensor<4x8xf32>
  func.return %1 : tensor<4x8xf32>
}

// In arms, in bodies, but not for devices outside the topology.
// CHECK-LABEL: @inside
// CHECK-NEXT:    %y = fuel.branch "mine"(%a = %x : tensor<4x8xbf16>) -> tensor<4x8xbf16>
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT:      %z = fuel.scan init(%s = %a : tensor<4x8xbf16>) length 2 -> tensor<4x8xbf16> {
// CHECK-NEXT:        %0 = fuel.cast %s : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK-NEXT:        %1 = fuel.reduce_max_to %0 : tensor<4x8xf32> -> tensor<4x1xf32>
// CHECK-NEXT:        %2 = fuel.broadcast_to %1 : tensor<4x1xf32> -> tensor<4x8xf32>
// CHECK-NEXT:        %3 = fuel.sub %0, %2 : tensor<4x8xf32>
// CHECK-NEXT:        %4 = fuel.exp %3 : tensor<4x8xf32>
// CHECK-NEXT:        %5 = fuel.reduce_sum_to %4 : tensor<4x8xf32> -> tensor<4x1xf32>
// CHECK-NEXT:        %6 = fuel.broadcast_to %5 : tensor<4x1xf32> -> tensor<4x8xf32>
// CHECK-NEXT:        %7 = fuel.div %4, %6 : tensor<4x8xf32>
// CHECK-NEXT:        %8 = fuel.cast %7 : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-NEXT:        fuel.scan_yield carry(%8 : tensor<4x8xbf16>)
// CHECK-NEXT:      }
// CHECK-NEXT:      fuel.yield %z : tensor<4x8xbf16>
// CHECK-NEXT:    }
// CHECK-NEXT:    arm on #fuel.target<cuda:0, "triton"> {
// CHECK-NEXT:      %0 = fuel.softmax_last_dim %a : tensor<4x8xbf16>
// CHECK-NEXT:      fuel.yield %0 : tensor<4x8xbf16>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %y : tensor<4x8xbf16>
func.func @inside(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %y = fuel.branch "mine"(%a = %x : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  arm on #fuel.target<cpu, "numpy"> {
    %z = fuel.scan init(%s = %a : tensor<4x8xbf16>) length 2 -> tensor<4x8xbf16> {
      %0 = fuel.softmax_last_dim %s : tensor<4x8xbf16>
      fuel.scan_yield carry(%0 : tensor<4x8xbf16>)
    }
    fuel.yield %z : tensor<4x8xbf16>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %1 = fuel.softmax_last_dim %a : tensor<4x8xbf16>
    fuel.yield %1 : tensor<4x8xbf16>
  }
  func.return %y : tensor<4x8xbf16>
}
