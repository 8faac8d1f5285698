# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random machines for property tests, and random programs that use their devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import ArmAttr, DeviceAttr, TargetAttr
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp, YieldOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.targets import registry
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.targets.machine import Device, Link, Rates, Topology
from fuel_dialect.targets.op_sets import OpSet, Unstable
from fuel_dialect.traits import Leaf
from fuel_passes.planning.candidates import refusal_of
from fuel_passes.planning.serving import serves
from fuel_passes.planning.topology import STAMP, attribute_of, path, target_description
from fuel_passes.walk import functions
from ops_on_arrays import BY_MNEMONIC
from programs import Program, programs

TARGETS = (
    TargetAttr.of("cpu", "numpy"),
    TargetAttr.of("cuda:0", "triton"),
    TargetAttr.of("cuda:1", "triton"),
    TargetAttr.of("vulkan:0", "kompute"),
)


UNSTEADY = (Unstable(OpSet(), "each time"),)
"""Said by a source of which no op gives the same bits twice."""


def only(*mnemonics: str) -> tuple[OpSet, ...]:
    """Ops of fuel, for what a description lacks."""
    return tuple(OpSet(BY_MNEMONIC[name]) for name in mnemonics)


PACKED = (
    (("matmul", "contiguous"),),
    (("pointwise", "contiguous"), ("reduction", "contiguous"), ("library", "contiguous")),
)
"""Ways to read operands other than as they lie."""


@st.composite
def machines(draw: Callable[..., Any], like: Topology | None = None) -> Topology:
    """
    Two or three devices, each joined to the host: those of another machine, or any.

    Prices of kernels and of transfers are of one size, so that small programs are spread out.
    """
    others = draw(st.permutations(TARGETS[1:]))[: draw(st.integers(1, 2))]
    given = (TARGETS[0], *others) if like is None else like.targets
    targets = draw(st.permutations(given))
    names = [target.device.label for target in targets]
    devices = [Device(name, draw(st.sampled_from([None, 64, 4096]))) for name in names]
    if draw(st.integers(0, 4)) == 0:
        shared = DeviceAttr.of("cpu").label
        devices[-1] = Device(devices[-1].name, devices[-1].memory_bytes, shared)
    largest, buffers = st.sampled_from([None, None, 4096]), st.sampled_from([None, None, 8, 12])
    devices = [
        device
        if device.name == "cpu"
        else replace(device, largest_buffer_bytes=draw(largest), buffers=draw(buffers))
        for device in devices
    ]
    links: list[Link] = []
    for source, goal in permutations(names, 2):
        if "cpu" in (source, goal) or draw(st.booleans()):
            rate = draw(st.sampled_from([0.5, 4.0]))
            links.append(Link(source, goal, draw(st.integers(1, 200)), rate))
    rates = [
        Rates(
            target,
            draw(st.sampled_from([0.2, 1.0, 5.0])),
            draw(st.sampled_from([0.2, 1.0, 5.0])),
            10.0,
            draw(st.integers(1, 200)),
            strides=draw(st.sampled_from([None, (), *PACKED])),
        )
        for target in targets
    ]
    return Topology("random", tuple(devices), tuple(targets), tuple(links), tuple(rates))


@st.composite
def placed_programs(draw: Callable[..., Any], machine: Topology, max_ops: int = 12) -> Program:
    """
    A random program for a machine: arms for any of its targets, arguments and results anywhere.

    The module is stamped with the machine.
    """
    program = draw(programs(max_ops))
    module = program.module
    stamp(module, machine)
    for op in module.walk():
        if isinstance(op, BranchOp):
            able = [_able(region, machine) for region in op.arm_regions]
            arms = [ArmAttr.of(draw(st.sampled_from(targets))) for targets in able]
            op.properties["arms"] = ArrayAttr(arms)
    devices = [DeviceAttr.of(device.name) for device in machine.devices]

    for function in functions(module):
        type = function.function_type
        for name, values in (("arg_attrs", type.inputs), ("res_attrs", type.outputs)):
            chosen = [draw(st.sampled_from([None, *devices])) for _ in values]
            if any(chosen):
                function.properties[name] = ArrayAttr(map(_at, chosen))
    return program


def _able(region: Region, machine: Topology) -> list[TargetAttr]:
    """The targets that have kernels for all ops of an arm, and run all its scans."""
    ops = [op for op in region.walk() if isinstance(op, FuelOp) and not op.has_trait(IsTerminator)]
    described = [(target, target_description(machine, target)) for target in machine.targets]
    return [
        target
        for target, description in described
        if all(serves(op, description) for op in ops)
        and all(_runs(op, description) for op in ops if isinstance(op, ScanOp))
    ]


def _runs(scan: ScanOp, description: TargetDescription) -> bool:
    """Returns True if a source of a target makes the kernel that a scan is."""
    block = Block(arg_types=[value.type for value in scan.operands])
    clone = scan.clone(dict(zip(scan.operands, block.args, strict=True)))
    block.add_ops([clone, YieldOp.create(operands=clone.results)])
    kernel = KernelOp.create(
        operands=scan.operands,
        result_types=[value.type for value in clone.results],
        properties={"kind": StringAttr("scan"), "label": StringAttr("scan")},
        regions=[Region(block)],
    )
    refusals = [refusal_of(kernel, description, source) for source in description.sources]
    kernel.erase()
    return None in refusals


def _at(device: DeviceAttr | None) -> DictionaryAttr:
    return DictionaryAttr({} if device is None else {"fuel.device": device})


def stamp(module: ModuleOp, machine: Topology) -> ModuleOp:
    """Say on a module what it is planned for."""
    module.attributes[STAMP] = attribute_of(machine)
    return module


class Walk:
    """
    A walk along one route of a module that is planned for a machine, which asserts that what
    reads a value can reach it.
    """

    def __init__(self, machine: Topology, route: Mapping[str, int]):
        self.machine = machine
        self.route = route
        self.home: dict[SSAValue, str | None] = {}

    def function(self, function: FuncOp) -> None:
        arguments = function.arg_attrs or [None] * len(function.body.block.args)
        for value, given in zip(function.body.block.args, arguments, strict=True):
            self.home[value] = device_in(given)
        self.block(function.body.block, "")
        end = function.body.block.last_op
        assert end is not None
        results = function.res_attrs or [None] * len(end.operands)
        for value, given in zip(end.operands, results, strict=True):
            self.read(value, device_in(given))

    def read(self, value: SSAValue, device: str) -> None:
        home = self.home[value]
        if home is None or home == device:
            return
        there, here = self.machine.device(home), self.machine.device(device)
        assert there is not None
        assert here is not None
        assert there.storage == here.storage, f"{value} lives on {home}, is read on {device}"

    def block(self, block: Block, prefix: str) -> None:
        for op in block.ops:
            if op.has_trait(Leaf):
                self.home[op.results[0]] = None
            elif isinstance(op, BranchOp):
                self.branch(op, prefix)
            elif isinstance(op, TransferOp):
                home = self.home[op.input]
                assert home is None or len(path(self.machine, home, op.to.label)) <= 2
                self.home[op.result] = op.to.label
            elif not op.has_trait(IsTerminator):
                assert isinstance(op, RunOp)
                assert not any(k.target for k in op.body.block.ops if isinstance(k, KernelOp))
                for value in op.operands:
                    self.read(value, op.target.device.label)
                self.home.update((result, op.target.device.label) for result in op.results)

    def branch(self, op: BranchOp, prefix: str) -> None:
        name = prefix + op.id.data
        arm = self.route.get(name, 0)
        block = op.arm_regions[arm].block
        for argument, value in zip(block.args, op.inputs, strict=True):
            self.home[argument] = self.home[value]
        self.block(block, f"{name}/{arm}/")
        end = block.last_op
        assert end is not None
        own = op.arms.data[arm].target.device.label
        for result, value in zip(op.results, end.operands, strict=True):
            self.home[result] = self.home[value] or own


def device_in(attributes: DictionaryAttr | None) -> str:
    device = (attributes.data if attributes else {}).get("fuel.device")
    return device.label if isinstance(device, DeviceAttr) else "cpu"


@contextmanager
def sources(backend: str, **changes: Mapping[str, object]) -> Iterator[None]:
    """Other properties of some sources of a target."""

    def changed(name: str) -> TargetDescription | None:
        found = registry.description_of(name)
        if found is None or name != backend:
            return found
        new = [replace(s, **changes.get(s.name, {})) for s in found.sources]
        return replace(found, sources=tuple(new))

    with patch("fuel_passes.planning.topology.description_of", changed):
        yield
