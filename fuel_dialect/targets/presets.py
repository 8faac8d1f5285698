# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The machines that have a name. Rates are what kernels reach in practice, not the data sheet's.

Memory is per device; bytes and operations are per nanosecond, so that 1000 bytes are 1 TB/s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fuel_dialect.attributes import TargetAttr
from fuel_dialect.targets.description import ByDtype, DtypeRates
from fuel_dialect.targets.machine import Device, Link, Rates, Topology, both_ways

_GIB = 2**30

_CPU = TargetAttr.of("cpu", "numpy")
_CUDA = TargetAttr.of("cuda:0", "triton")
_CUDA_1 = TargetAttr.of("cuda:1", "triton")
_VULKAN = TargetAttr.of("vulkan:0", "kompute")

_PCIE_4 = both_ways("cpu", "cuda:0", 10_000, 22.0)
_PCIE_5 = both_ways("cpu", "cuda:0", 10_000, 45.0)
_PCIE_5_SECOND = both_ways("cpu", "cuda:1", 10_000, 45.0)
_NVLINK = both_ways("cuda:0", "cuda:1", 6_000, 350.0)


def _by_dtype(half_flops: float, double: DtypeRates, i32: float, i64: float) -> ByDtype:
    """The rates of a card for what is no f32; products of integers have no tensor cores."""
    half = DtypeRates(flops_per_ns=half_flops)
    narrow = DtypeRates(operations_per_ns=i32, flops_per_ns=i32 / 4)
    wide = DtypeRates(operations_per_ns=i64, flops_per_ns=i64 / 4)
    narrower = ((name, narrow) for name in ("i8", "i16", "i32", "ui8", "ui32"))
    return (("bf16", half), ("f16", half), ("f64", double), *narrower, ("i64", wide))


def a100(target: TargetAttr) -> Rates:
    """NVIDIA A100 80GB: f64 at half the rate of f32, integers of 32 bits at its whole rate."""
    others = _by_dtype(220_000.0, DtypeRates(None, 4_000.0, 15_000.0), 8_000.0, 2_000.0)
    return Rates(target, 1_500.0, 8_000.0, 90_000.0, 4_000, others)


def h100(target: TargetAttr) -> Rates:
    """NVIDIA H100 SXM: f64 and integers of 32 bits at half the rate of f32."""
    others = _by_dtype(600_000.0, DtypeRates(None, 12_500.0, 45_000.0), 12_500.0, 3_000.0)
    return Rates(target, 2_700.0, 25_000.0, 280_000.0, 4_000, others)


def h200(target: TargetAttr) -> Rates:
    """NVIDIA H200: an H100 with faster memory."""
    return replace(h100(target), bytes_per_ns=3_900.0)


def rtx4090(target: TargetAttr) -> Rates:
    """NVIDIA GeForce RTX 4090: f64 at 1/64 of the rate of f32, integers of 32 bits at half."""
    others = _by_dtype(140_000.0, DtypeRates(None, 470.0, 1_100.0), 15_000.0, 3_750.0)
    return Rates(target, 850.0, 30_000.0, 60_000.0, 4_000, others)


CARDS: Mapping[str, Callable[[TargetAttr], Rates]] = {
    "A100": a100,
    "H100": h100,
    "H200": h200,
    "RTX 4090": rtx4090,
}
"""The rates of cards, by what is part of their name."""


def _with_cuda(name: str, memory: int, links: tuple[Link, ...], rates: Rates) -> Topology:
    devices = (Device("cpu"), Device("cuda:0", memory))
    return Topology(name, devices, (_CPU, _CUDA), links, (rates,))


_ALL = (
    Topology("cpu", (Device("cpu"),), (_CPU,)),
    Topology(
        "cpu+vulkan",
        (Device("cpu"), Device("vulkan:0", 8 * _GIB)),
        (_CPU, _VULKAN),
        both_ways("cpu", "vulkan:0", 20_000, 12.0),
    ),
    _with_cuda("cpu+a100", 80 * _GIB, _PCIE_4, a100(_CUDA)),
    _with_cuda("cpu+h100", 80 * _GIB, _PCIE_5, h100(_CUDA)),
    _with_cuda("cpu+h200", 141 * _GIB, _PCIE_5, h200(_CUDA)),
    _with_cuda("cpu+rtx4090", 24 * _GIB, _PCIE_4, rtx4090(_CUDA)),
    Topology(
        "2xh100",
        (Device("cpu"), Device("cuda:0", 80 * _GIB), Device("cuda:1", 80 * _GIB)),
        (_CPU, _CUDA, _CUDA_1),
        (*_PCIE_5, *_PCIE_5_SECOND, *_NVLINK),
        (h100(_CUDA), h100(_CUDA_1)),
    ),
)

PRESETS: dict[str, Topology] = {topology.name: topology for topology in _ALL}
