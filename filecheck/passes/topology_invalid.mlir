// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt --split-input-file --verify-diagnostics -p fuel-plan %s | filecheck %s

builtin.module attributes {fuel.topology = #fuel.topology<"m", [#fuel.target<cpu, "numpy">], {devices = [{name = "cpu"}, {name = "cuda:0"}]}>} {
}
// CHECK: topology 'm' has no way from cpu to cuda:0: neither a direct link nor links through cpu; its links are none

// -----

builtin.module attributes {fuel.topology = #fuel.topology<"m", [#fuel.target<cpu, "numpy">], {devices = [{name = "cpu"}], rates = {"cpu/numpy" = {launch_ns = 5}}}>} {
}
// CHECK: #fuel.topology<'m'>.rates['cpu/numpy']: object missing required field `bytes_per_ns`; it needs bytes_per_ns, operations_per_ns, flops_per_ns, launch_ns and may have dtypes, threads, strides

// -----

builtin.module attributes {fuel.topology = #fuel.topology<"m", [#fuel.target<cuda:0, "triton">], {devices = [{name = "cpu"}]}>} {
}
// CHECK: topology 'm': target cuda:0/triton is on a device that it lacks; it has cpu
