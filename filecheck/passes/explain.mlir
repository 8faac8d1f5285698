// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: fuel-explain %s --topology cpu+h100 | filecheck %s
// RUN: fuel-explain %s --topology cpu+h100 --json | filecheck %s --check-prefix=JSON
// RUN: fuel-explain %s --topology cpu+vulkan | filecheck %s --check-prefix=VULKAN
// RUN: fuel-explain %s --topology cpu+vulkan --svg %t.svg --html %t.html
// RUN: filecheck %s --check-prefix=SVG --input-file %t.svg
// RUN: filecheck %s --check-prefix=HTML --input-file %t.html
// RUN: not fuel-explain %s --topology moon 2>&1 | filecheck %s --check-prefix=MOON

// CHECK:      topology cpu+h100 ({{[0-9a-f]+}}): cpu/numpy, cuda:0/triton
// CHECK:      @main
// CHECK-NEXT:      0 pointwise exp, pinned to cpu
// CHECK-NEXT:        * cpu/numpy        tiles              {{[0-9,]+}} ns
// CHECK-NEXT:          cpu/numpy        library            {{[0-9,]+}} ns
// CHECK-NEXT:          cuda:0/triton    generated        {{[0-9,]+}} ns
// CHECK-NEXT:   as planned         {{[0-9,]+}} ns: kernels {{[0-9,]+}}, transfers 0; exact
// CHECK-NEXT:   all on cpu                 {{[0-9,]+}} ns

// JSON: "topology": "cpu+h100"
// JSON: "item": "exp"
// JSON: "total_ns": 504

// VULKAN: 0 pointwise exp, pinned to cpu, one target alone can run it
// VULKAN: vulkan:0/kompute shaders   refused: no kernel for exp (f64) -> f64

// SVG: <svg xmlns="http://www.w3.org/2000/svg"
// SVG: <g class="run" data-id="main:0" data-target="cpu/numpy">
// SVG: <g class="kernel" data-id="main:0.0">
// SVG: vulkan:0/kompute shaders: refused: no kernel for exp (f64) -&gt; f64
// SVG: <g class="candidate chosen" data-target="cpu/numpy">
// SVG: <g class="candidate refused" data-target="vulkan:0/kompute">

// HTML: <!DOCTYPE html>
// HTML: "main:0.0": {"title": "pointwise exp", "lines": ["pinned to cpu", "one target alone can run it"]

// MOON: fuel-explain: error: topology 'moon' is not known; the presets are cpu
func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
  %0 = fuel.exp %x {placement = #fuel.device<cpu>} : tensor<2xf64>
  func.return %0 : tensor<2xf64>
}
