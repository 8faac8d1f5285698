// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p 'fuel-plan{topology="%S/measured_machine.json" measurements="%S/measurements.json"}' | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-plan{topology="%S/measured_machine.json"}' | filecheck %s --check-prefix=MODEL
// RUN: fuel-explain %s --topology %S/measured_machine.json --measurements %S/measurements.json | filecheck %s --check-prefix=EXPLAIN
// RUN: not xdsl-opt %s -p 'fuel-plan{measurements="%S/measured_machine.json"}' 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not xdsl-opt %s -p 'fuel-plan{measurements="nowhere.json"}' 2>&1 | filecheck %s --check-prefix=NOWHERE
// RUN: not xdsl-opt %s -p 'fuel-optimize{max-ulps=0}' 2>&1 | filecheck %s --check-prefix=ULPS
// RUN: xdsl-opt %s -p 'fuel-optimize{max-ulps=4 deterministic=true}' | filecheck %s --check-prefix=BOUND

// What was measured of a kernel on this hardware takes the place of its price.
// CHECK-LABEL: @main
// CHECK-NEXT: fuel.kernel pointwise "exp" on #fuel.target<cuda:0, "triton">
// What was measured on other hardware does not.
// CHECK:      fuel.kernel pointwise "neg"(

// MODEL-NOT: on #fuel.target

// EXPLAIN:      0 pointwise exp
// EXPLAIN-NEXT:   cpu/numpy        tiles          900,000 ns  measured
// EXPLAIN-NEXT:   cpu/numpy        library        700,000 ns  measured
// EXPLAIN-NEXT: * cuda:0/triton    generated        5,001 ns
// EXPLAIN:      1 pointwise neg
// EXPLAIN-NEXT: * cpu/numpy        tiles              504 ns

// FILE: measured_machine.json: object contains unknown field `name`; it needs measurements
// NOWHERE: measurements file nowhere.json cannot be read
// ULPS: fuel-plan: no target for exp: cpu/numpy tiles: precision-floor: tiles may give a exp of f32 4 units in the last place off; 0 are allowed; cpu/numpy library: precision-floor
// BOUND: fuel.kernel pointwise "exp"
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fuel.exp %x : tensor<8xf32>
  %1 = fuel.neg %y : tensor<8xf32>
  func.return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
