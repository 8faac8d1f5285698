# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-explain`: what a plan chose for each kernel, out of what, and what every route costs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import FuelError
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_passes.collector import paused_collector
from fuel_passes.pipeline import OptimizePass
from fuel_passes.plan.topology import generation, resolve
from fuel_passes.plan_pass import BlockPlan, PlanPass, plan_block, session_pin
from fuel_passes.walk import functions

FAILURE = 2

DESCRIPTION = """\
Optimise an IR file for a topology and say what was chosen: for each kernel the targets that could
run it and how they would make it, with prices and with why the others cannot; for each decision its
arms; and what the whole costs, as planned and on one device alone. Prices are in nanoseconds, from
the model or from measurements.
"""


@dataclass(frozen=True)
class CandidateReport:
    """A target for an item, and of a kernel its source: `price_ns`, or why it is `refused`."""

    target: str
    source: str
    price_ns: int | None
    measured: bool
    refused: str
    chosen: bool


@dataclass(frozen=True)
class ItemReport:
    """A kernel, or a decision or transfer that is placed as one."""

    item: str
    kind: str
    pin: str
    only_one: bool
    """Whether no more than one target could run it, though there are more."""
    only_generic: bool
    """Whether only a source that is there for everything could make it."""
    candidates: tuple[CandidateReport, ...]


@dataclass(frozen=True)
class ArmReport:
    """One arm of a decision."""

    target: str
    price_ns: int | None
    origin: str


@dataclass(frozen=True)
class DecisionReport:
    """What is left to the picker; `decision` is the path of the branch, arm 0 the default."""

    decision: str
    arms: tuple[ArmReport, ...]


@dataclass(frozen=True)
class FunctionReport:
    """One function: its items in order, the totals of routes, and the decisions that stay."""

    function: str
    items: tuple[ItemReport, ...]
    total_ns: int
    kernels_ns: int
    transfers_ns: int
    exact: bool
    """Whether no placement is cheaper; else `gap` says how far off it may be at most."""
    gap: float
    alone_ns: dict[str, int]
    """All on one device, for each device that can run everything."""
    decisions: tuple[DecisionReport, ...]


@dataclass(frozen=True)
class Explanation:
    """Everything that `fuel-explain` prints."""

    topology: str
    generation: str
    targets: tuple[str, ...]
    functions: tuple[FunctionReport, ...]

    def to_json(self) -> str:
        """The explanation as a JSON object with the names of the fields."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def explain(module: ModuleOp, pipeline: OptimizePass, ctx: Context | None = None) -> Explanation:
    """
    Optimise a module and say why it came out so; afterwards the module is optimised.

    Raises the `FuelPassError`s of the passes.
    """
    ctx = ctx or make_context()
    plans: dict[str, BlockPlan] = {}
    items: dict[str, tuple[ItemReport, ...]] = {}
    topology = resolve(module, pipeline.topology)
    with paused_collector():
        for inner in pipeline.passes():
            if isinstance(inner, PlanPass):
                plans = _plans(module, inner)
                items = {name: tuple(_items(plan)) for name, plan in plans.items()}
            inner.apply(ctx, module)
    reports = tuple(
        _function(function, plans[function.sym_name.data], items[function.sym_name.data])
        for function in functions(module)
    )
    targets = tuple(map(str, topology.targets))
    return Explanation(topology.name, generation(topology), targets, reports)


def _plans(module: ModuleOp, inner: PlanPass) -> dict[str, BlockPlan]:
    candidates = inner.candidates(module)
    pin = None if inner.device is None else session_pin(inner.device, candidates.topology)
    return {
        function.sym_name.data: plan_block(function, function.body.block, candidates, pin)
        for function in functions(module)
    }


def _items(plan: BlockPlan) -> Iterator[ItemReport]:
    for op, found in plan.candidates.items():
        chosen = plan.chosen.get(op)
        reports = tuple(
            CandidateReport(
                str(c.target), c.source, c.price_ns, c.measured, c.refusal or "", c is chosen
            )
            for c in found
        )
        pin = op.properties.get("placement")
        able = [c for c in found if c.refusal is None]
        only_one = len({c.target for c in found}) > 1 and len({c.target for c in able}) == 1
        only_generic = bool(able) and all(c.generic for c in able)
        yield ItemReport(
            _name(op), _kind(op), "" if pin is None else str(pin), only_one, only_generic, reports
        )


def _name(op: Operation) -> str:
    if isinstance(op, KernelOp):
        return op.label.data
    if isinstance(op, BranchOp):
        return op.id.data
    return op.mnemonic() if isinstance(op, FuelOp) else op.name


def _kind(op: Operation) -> str:
    if isinstance(op, KernelOp):
        return op.kind.data
    return "decision" if isinstance(op, BranchOp) else "transfer"


def _function(function: FuncOp, plan: BlockPlan, items: tuple[ItemReport, ...]) -> FunctionReport:
    placed = plan.placement
    return FunctionReport(
        function.sym_name.data,
        items,
        placed.total_ns,
        placed.kernels_ns,
        placed.transfers_ns,
        placed.exact,
        placed.gap,
        dict(placed.singles),
        tuple(_decisions(function)),
    )


def _decisions(function: FuncOp) -> Iterator[DecisionReport]:
    pending = [("", function.body.block)]
    while pending:
        prefix, block = pending.pop()
        for op in block.ops:
            if not isinstance(op, BranchOp):
                continue
            path = prefix + op.id.data
            arms = (ArmReport(str(a.target), a.price_ns, a.origin.data) for a in op.arms)
            yield DecisionReport(path, tuple(arms))
            pending += [(f"{path}/{i}/", r.block) for i, r in enumerate(op.arm_regions)]


# Text.


def _lines(explanation: Explanation) -> Iterator[str]:
    targets = ", ".join(explanation.targets)
    yield f"topology {explanation.topology} ({explanation.generation}): {targets}"
    for report in explanation.functions:
        yield ""
        yield f"@{report.function}"
        for number, item in enumerate(report.items):
            yield from _item_lines(number, item)
        yield from _total_lines(report)
        for decision in report.decisions:
            yield f"  decision {decision.decision}"
            for index, arm in enumerate(decision.arms):
                mark = "*" if index == 0 else " "
                yield f"  {mark} arm {index} {arm.target:16} {_ns(arm.price_ns)}  {arm.origin}"


def _item_lines(number: int, item: ItemReport) -> Iterator[str]:
    pin = f", pinned to {item.pin}" if item.pin else ""
    only = ", one target alone can run it" if item.only_one else ""
    generic = ", only a generic source can make it" if item.only_generic else ""
    yield f"  {number:4} {item.kind} {item.item}{pin}{only}{generic}"
    for candidate in item.candidates:
        mark = "*" if candidate.chosen else " "
        why = f"refused: {candidate.refused}" if candidate.refused else _ns(candidate.price_ns)
        said = f"{why}  measured" if candidate.measured else why
        yield f"       {mark} {candidate.target:16} {candidate.source:9} {said}"


def _total_lines(report: FunctionReport) -> Iterator[str]:
    quality = "exact" if report.exact else f"at most {report.gap:.1%} above the best"
    yield (
        f"  as planned{_ns(report.total_ns)}: kernels {report.kernels_ns:,}, "
        f"transfers {report.transfers_ns:,}; {quality}"
    )
    for device, total in report.alone_ns.items():
        yield f"  all on {device:10} {_ns(total)}"


def _ns(price: int | None) -> str:
    return "unpriced".rjust(15) if price is None else f"{price:12,} ns"


# The command.


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `fuel-explain`."""
    options = _parser().parse_args(arguments)
    try:
        module = parse_module(Path(options.file).read_text(encoding="utf-8"))
        pipeline = OptimizePass(
            topology=options.topology,
            device=options.device,
            variants=options.variants,
            plugins=not options.no_plugins,
            deterministic=options.deterministic,
            max_ulps=options.max_ulps,
            measurements=options.measurements,
        )
        explanation = explain(module, pipeline)
    except (FuelError, OSError, UnicodeDecodeError) as error:
        print(f"fuel-explain: {_first_line(error)}", file=sys.stderr)
        return FAILURE
    print(explanation.to_json() if options.json else explanation)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("fuel-explain", description=DESCRIPTION)
    parser.add_argument("file", metavar="FILE", help="an IR file")
    parser.add_argument("--topology", metavar="NAME", help="a preset, or a file that ends in .json")
    parser.add_argument("--device", metavar="NAME", help="pin every kernel that it can run to it")
    parser.add_argument("--variants", choices=("bake", "keep"), default="bake")
    parser.add_argument(
        "--no-plugins", action="store_true", help="leave out passes of other packages"
    )
    parser.add_argument("--deterministic", action="store_true", help="bit-stable kernels only")
    parser.add_argument("--max-ulps", type=int, metavar="N", help="the least precision allowed")
    parser.add_argument("--measurements", metavar="FILE", help="a .json file of measured times")
    parser.add_argument("--json", action="store_true", help="a JSON object instead of text")
    return parser


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
