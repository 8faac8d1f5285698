// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: fuel-explain %s --topology cpu+h100 | filecheck %s
// RUN: fuel-explain %s --topology cpu+h100 --json | filecheck %s --check-prefix=JSON
// RUN: fuel-explain %s --topology cpu+vulkan | filecheck %s --check-prefix=VULKAN
// RUN: not fuel-explain %s --topology moon 2>&1 | filecheck %s --check-prefix=MOON

// CHECK:      topology cpu+h100 ({{[0-9a-f]+}}): cpu/numpy, cuda:0/triton
// CHECK:      @main
// CHECK-NEXT:      0 pointwise exp, pinned to cpu
// CHECK-NEXT:        * cpu/numpy        tiles              502 ns
// CHECK-NEXT:          cpu/numpy        library            502 ns
// CHECK-NEXT:          cuda:0/triton    generated        4,001 ns
// CHECK-NEXT:   as planned         502 ns: kernels 502, transfers 0; exact
// CHECK-NEXT:   all on cpu                 502 ns

// JSON: "topology": "cpu+h100"
// JSON: "item": "exp"
// JSON: "total_ns": 502

// VULKAN: 0 pointwise exp, pinned to cpu, one target alone can run it
// VULKAN: vulkan:0/kompute shaders   refused: no kernel for exp (f64) -> f64

// MOON: fuel-explain: topology 'moon' is not known; the presets are cpu
func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
  %0 = fuel.exp %x {placement = #fuel.device<cpu>} : tensor<2xf64>
  func.return %0 : tensor<2xf64>
}
