// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s | filecheck %s
// RUN: xdsl-opt --print-op-generic %s | xdsl-opt | filecheck %s

builtin.module attributes {fuel.topology = #fuel.topology<"mine", [#fuel.target<cpu, "numpy">, #fuel.target<cuda:0, "triton">], {devices = [{name = "cpu"}, {name = "cuda:0", memory_bytes = 24000000000}], links = [{source = "cpu", target = "cuda:0", latency_ns = 10000, bytes_per_ns = 25.0}, {source = "cuda:0", target = "cpu", latency_ns = 10000, bytes_per_ns = 25.0}]}>} {
}
// CHECK: builtin.module attributes {fuel.topology = #fuel.topology<"mine", [#fuel.target<cpu, "numpy">, #fuel.target<cuda:0, "triton">], {devices = [{name = "cpu"}, {name = "cuda:0", memory_bytes = 24000000000 : i64}], links = [{source = "cpu", target = "cuda:0", latency_ns = 10000 : i64, bytes_per_ns = 2.500000e+01 : f64}, {source = "cuda:0", target = "cpu", latency_ns = 10000 : i64, bytes_per_ns = 2.500000e+01 : f64}]}>} {
