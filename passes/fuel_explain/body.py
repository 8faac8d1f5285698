# SPDX-License-Identifier: MIT OR Apache-2.0
"""The optimised function as boxes: runs, transfers and decisions, and what goes between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import NAME, TargetAttr
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_explain.reports import (
    ArgumentReport,
    ArmReport,
    BodyReport,
    BoxReport,
    BranchReport,
    DecisionReport,
    ItemReport,
    RunReport,
    TransferReport,
    ValueReport,
)
from fuel_passes.forking.fork_placements import ForkPlacementsPass
from fuel_passes.planning.candidates import Candidate, Candidates
from fuel_passes.planning.prices import size_of
from fuel_passes.planning.residency import argument_devices, residency_of, result_devices
from fuel_passes.planning.topology import transfer_ns

MakeItem = Callable[[Operation, Sequence[Candidate], Candidate | None], ItemReport]


class Bodies:
    """Reports of one optimised function; `decisions` are those that were met on the way."""

    def __init__(self, function: FuncOp, candidates: Candidates, total_ns: int, item: MakeItem):
        self.function = function
        self.candidates = candidates
        self.total_ns = total_ns
        self.item = item
        self.decisions: list[DecisionReport] = []
        self._ids: dict[SSAValue, str] = {}
        self._residency = residency_of(function, candidates.topology.targets)

    def of_function(self) -> BodyReport:
        """The boxes of the function."""
        return self._body(self.function.body.block, "")

    def arguments(self) -> tuple[ArgumentReport, ...]:
        """The arguments of the function."""
        block = self.function.body.block
        devices = argument_devices(self.function, block)
        hints = [value.name_hint or f"arg{index}" for index, value in enumerate(block.args)]
        names = _names(self.function.arg_attrs, hints)
        return tuple(
            ArgumentReport(name, str(value.type), str(device))
            for name, value, device in zip(names, block.args, devices, strict=True)
        )

    def results(self) -> tuple[ArgumentReport, ...]:
        """The results of the function."""
        types, devices = self.function.function_type.outputs, result_devices(self.function)
        names = _names(self.function.res_attrs, [f"result{index}" for index in range(len(types))])
        return tuple(
            ArgumentReport(name, str(type), str(device))
            for name, type, device in zip(names, types, devices, strict=True)
        )

    def _body(self, block: Block, prefix: str) -> BodyReport:
        boxes: list[BoxReport] = []
        for op in block.ops:
            if op.has_trait(Leaf) or op.has_trait(IsTerminator) or not isinstance(op, FuelOp):
                continue
            name = f"{prefix}{len(boxes)}"
            boxes.append(self._box(op, name, prefix))
            self._ids.update((result, name) for result in op.results)
        end = block.last_op
        return BodyReport(tuple(boxes), self._values(end.operands if end else ()))

    def _values(self, values: Iterable[SSAValue]) -> tuple[ValueReport, ...]:
        """Returns what goes into a box: each value once, no leaves."""
        return tuple(
            ValueReport(self._ids.get(v, ""), str(v.type), size_of(tensor_type(v)))
            for v in dict.fromkeys(values)
            if isinstance(v.owner, Block) or not v.owner.has_trait(Leaf)
        )

    def _box(self, op: FuelOp, name: str, prefix: str) -> BoxReport:
        reads = self._values(op.operands)
        if isinstance(op, BranchOp):
            return self._branch(op, name, reads, prefix)
        if isinstance(op, TransferOp):
            planned, to = op.planned is not None, str(op.to)
            price = self._transfer_ns(op)
            return TransferReport(name, "transfer", reads, op.mnemonic(), to, planned, price)
        assert isinstance(op, RunOp)
        kernels = [self._kernel(k, op.target) for k in op.body.block.ops if isinstance(k, KernelOp)]
        prices = [kernel.price_ns for kernel in kernels]
        known = [price for price in prices if price is not None]
        total = sum(known) if len(known) == len(prices) else None
        leaves = sum(inner.has_trait(Leaf) for inner in op.body.block.ops)
        return RunReport(name, "run", reads, str(op.target), total, leaves, tuple(kernels))

    def _kernel(self, kernel: KernelOp, target: TargetAttr) -> ItemReport:
        found = self.candidates.of(kernel)
        fitting = [c for c in found if c.target == target and c.refusal is None]
        chosen = min(fitting, key=lambda c: (c.price_ns is None, c.price_ns or 0), default=None)
        return self.item(kernel, found, chosen)

    def _transfer_ns(self, op: TransferOp) -> int | None:
        homes = self._residency.of(op.input)
        if len(homes) != 1:
            return None
        (home,) = homes
        size = size_of(tensor_type(op.input))
        return transfer_ns(self.candidates.topology, home.label, op.to.label, size)

    def _branch(
        self, op: BranchOp, name: str, reads: tuple[ValueReport, ...], prefix: str
    ) -> BranchReport:
        path = prefix + op.id.data
        arms = tuple(
            ArmReport(str(a.target), a.price_ns, a.origin.data, self._whole_ns(op, index))
            for index, a in enumerate(op.arms)
        )
        decision = DecisionReport(path, arms)
        self.decisions.append(decision)
        bodies = [self._body(r.block, f"{path}/{i}/") for i, r in enumerate(op.arm_regions)]
        return BranchReport(name, "decision", reads, decision, tuple(bodies))

    def _whole_ns(self, op: BranchOp, index: int) -> int | None:
        """The total by an arm of a segment, whose prices hold the transfers in and out."""
        arms = op.arms.data
        planned, price = arms[0].price_ns, arms[index].price_ns
        is_segment = arms[0].origin.data.startswith(ForkPlacementsPass.name)
        if not is_segment or planned is None or price is None:
            return None
        return self.total_ns - planned + price


def _names(attributes: ArrayAttr[DictionaryAttr] | None, others: Sequence[str]) -> list[str]:
    """Returns the names of values: those of `fuel.name`, or else by position."""
    if attributes is None:
        return list(others)
    given = [found.data.get(NAME) for found in attributes]
    return [
        name.data if isinstance(name, StringAttr) else other
        for name, other in zip(given, others, strict=True)
    ]
