# SPDX-License-Identifier: MIT OR Apache-2.0
"""
From an optimised function to a route, and from a route to the Python function that walks it.

`survey` finds every decision and every run that this machine can execute. `trace` follows one
arm of each branch, which leaves a straight list of calls. `write` makes source text of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fuel_dialect.errors import DecisionError, LoweringError
from fuel_dialect.ops.control import BranchOp, RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.traits import Leaf
from fuel_runtime.arguments import Signature
from fuel_runtime.devices import Devices
from fuel_runtime.picker.static import Arm, Choice, Decision, pick


@dataclass(frozen=True)
class Survey:
    """What a function holds: decisions by branch, and, by op, the names of its runs and leaves."""

    unavailable: str | None
    """Why what stands outside of branches cannot run here; None if it can."""
    decisions: Mapping[BranchOp, Decision]
    runs: Mapping[RunOp, str]
    leaves: Mapping[Operation, str]


@dataclass(frozen=True)
class Call:
    """One run, called: its name, its arguments and the names of its results."""

    run: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Route:
    """The calls of one choice of arms, in order, and the names of what the function returns."""

    calls: tuple[Call, ...]
    results: tuple[str, ...]
    branches: frozenset[BranchOp]
    """The branches that the route comes to."""


def single_block(function: FuncOp) -> Block:
    """The body of a function. Raises `LoweringError` if control flows between blocks."""
    if len(function.body.blocks) != 1:
        raise LoweringError(
            f"{function.sym_name.data}: a function that runs has one block, not "
            f"{len(function.body.blocks)}"
        )
    return function.body.block


def survey(function: FuncOp, devices: Devices) -> Survey:
    """
    Every decision of an optimised function, with why an arm cannot run here, and what to lower.

    Raises `LoweringError` if the function holds anything but runs, branches, transfers and leaves.
    """
    body = single_block(function)
    decisions: dict[BranchOp, Decision] = {}
    unavailable = _why_not(body, devices, "", decisions)
    found = _Found(decisions)
    found.visit(body)
    return Survey(unavailable, decisions, found.runs, found.leaves)


def choose(survey: Survey, force: Mapping[str, int]) -> dict[BranchOp, Choice]:
    """
    An arm for each decision, `force` first.

    Raises `DecisionError` for a forced decision or arm that is not there, and `DeviceUnavailable`
    for a forced arm that cannot run here.
    """
    known = {decision.path: decision for decision in survey.decisions.values()}
    unknown = [path for path in force if path not in known]
    if unknown:
        have = ", ".join(f"{d.path} (arms 0 to {len(d.arms) - 1})" for d in known.values())
        raise DecisionError(
            f"there is no decision {', '.join(map(repr, unknown))}; "
            f"the program has {have or 'none'}"
        )
    choices: dict[BranchOp, Choice] = {}
    for branch, decision in survey.decisions.items():
        forced = force.get(decision.path)
        if forced is None and all(arm.unavailable for arm in decision.arms):
            continue
        choices[branch] = pick(decision, forced)
    return choices


def _why_not(
    block: Block, devices: Devices, prefix: str, decisions: dict[BranchOp, Decision]
) -> str | None:
    """
    Why a block cannot run here. Adds its decisions, outer before inner, at any depth.

    A transfer that only arms read which cannot run is no reason: it is not made.
    """
    reasons: list[str | None] = []
    transfers: list[TransferOp] = []
    for op in block.ops:
        if isinstance(op, BranchOp):
            reasons.append(_decide(op, devices, prefix, decisions))
        elif isinstance(op, RunOp):
            reasons.append(devices.why_not_target(op.target))
        elif isinstance(op, TransferOp):
            transfers.append(op)
        elif not op.has_trait(Leaf) and not op.has_trait(IsTerminator):
            raise LoweringError(
                f"{op.name} stands outside of a run; an optimised function holds runs, branches, "
                "transfers and leaves: compile with optimize=True, or apply fuel-form-runs"
            )
    reasons += [devices.why_not(op.to) for op in transfers if _is_read(op.result, decisions)]
    return next((reason for reason in reasons if reason is not None), None)


def _is_read(value: SSAValue, decisions: Mapping[BranchOp, Decision]) -> bool:
    """Whether anything that can run reads a value, in an arm or through transfers."""
    for use in value.uses:
        reader = use.operation
        if isinstance(reader, TransferOp):
            if _is_read(reader.result, decisions):
                return True
        elif not isinstance(reader, BranchOp):
            return True
        elif any(_is_read(given, decisions) for given in _inside(reader, use.index, decisions)):
            return True
    return False


def _inside(
    branch: BranchOp, operand: int, decisions: Mapping[BranchOp, Decision]
) -> Iterator[SSAValue]:
    """An operand of a branch as the arms know it that can run."""
    for arm, region in zip(decisions[branch].arms, branch.arm_regions, strict=True):
        if arm.unavailable is None:
            yield region.block.args[operand]


def _decide(
    branch: BranchOp, devices: Devices, prefix: str, decisions: dict[BranchOp, Decision]
) -> str | None:
    path = prefix + branch.id.data
    decisions[branch] = Decision(path, ())
    arms: list[Arm] = []
    for index, (arm, region) in enumerate(zip(branch.arms, branch.arm_regions, strict=True)):
        inside = _why_not(region.block, devices, f"{path}/{index}/", decisions)
        unavailable = devices.why_not_target(arm.target) or inside
        arms.append(Arm(str(arm.target), arm.price_ns, arm.origin.data, unavailable))
    decisions[branch] = Decision(path, tuple(arms))
    if any(arm.unavailable is None for arm in arms):
        return None
    return f"no arm of {path} can run: {arms[0].unavailable}"


@dataclass
class _Found:
    """Names the runs and leaves of every arm that can run here."""

    decisions: Mapping[BranchOp, Decision]
    runs: dict[RunOp, str] = field(default_factory=dict)
    leaves: dict[Operation, str] = field(default_factory=dict)

    def visit(self, block: Block) -> None:
        """Take in what a block holds, at any depth."""
        for op in block.ops:
            if isinstance(op, BranchOp):
                self._visit_arms(op)
            elif isinstance(op, RunOp):
                self.runs[op] = f"run{len(self.runs)}"
            elif op.has_trait(Leaf):
                self.leaves[op] = f"leaf{len(self.leaves)}"

    def _visit_arms(self, branch: BranchOp) -> None:
        for arm, region in zip(self.decisions[branch].arms, branch.arm_regions, strict=True):
            if arm.unavailable is None:
                self.visit(region.block)


def trace(function: FuncOp, survey: Survey, choices: Mapping[BranchOp, Choice]) -> Route:
    """
    The route of some choices: what a branch gives is what its chosen arm yields.

    Runs whose results only arms that are not chosen read are left out.
    """
    tracer = _Tracer(survey, choices)
    body = single_block(function)
    for index, argument in enumerate(body.args):
        tracer.names[argument] = f"a{index}"
    results = tracer.walk(body)
    return Route(_read_calls(tracer.calls, results), results, frozenset(tracer.branches))


def _read_calls(calls: Sequence[Call], results: Iterable[str]) -> tuple[Call, ...]:
    """The calls that a result depends on."""
    wanted = set(results)
    kept: list[Call] = []
    for call in reversed(calls):
        if not wanted.isdisjoint(call.outputs):
            wanted.update(call.inputs)
            kept.append(call)
    return tuple(reversed(kept))


class _Tracer:
    """Walks blocks in order; transfers to where a value already is cost nothing."""

    def __init__(self, survey: Survey, choices: Mapping[BranchOp, Choice]):
        self.survey = survey
        self.choices = choices
        self.names: dict[SSAValue, str] = {}
        self.calls: list[Call] = []
        self.branches: set[BranchOp] = set()
        self.values = 0

    def walk(self, block: Block) -> tuple[str, ...]:
        """The names of what the block's terminator takes."""
        for op in block.ops:
            self._visit(op)
        last = block.last_op
        return () if last is None else self._names(last.operands)

    def _names(self, values: Iterable[SSAValue]) -> tuple[str, ...]:
        return tuple(self.names[value] for value in values)

    def _visit(self, op: Operation) -> None:
        if isinstance(op, RunOp):
            self._call(op)
        elif isinstance(op, BranchOp):
            self._follow(op)
        elif isinstance(op, TransferOp):
            self.names[op.result] = self.names[op.input]
        elif op in self.survey.leaves:
            self.names[op.results[0]] = self.survey.leaves[op]

    def _call(self, run: RunOp) -> None:
        outputs = tuple(f"v{self.values + i}" for i in range(len(run.outputs)))
        self.values += len(outputs)
        self.names.update(zip(run.outputs, outputs, strict=True))
        self.calls.append(Call(self.survey.runs[run], self._names(run.inputs), outputs))

    def _follow(self, branch: BranchOp) -> None:
        self.branches.add(branch)
        block = branch.arm_regions[self.choices[branch].arm].block
        self.names.update(zip(block.args, self._names(branch.inputs), strict=True))
        self.names.update(zip(branch.outputs, self.walk(block), strict=True))


INDENT = "    "

ENTRY = """
def call(self{parameters}, *rest, **named):
    if {unusual}:
        {rebound}bind(({given}), rest, named)
    try:
        context = contexts.pop()
    except IndexError:
        context = new_context()
    results = context.run(walk{given_last})
    contexts.append(context)
    return results
"""


def write(route: Route, signature: Signature, has_scratch: Callable[[str], bool]) -> str:
    """
    The source of `walk(a0, ...)`, the calls of a route, and of `call(self, a0, ...)`, the method
    that checks arguments and walks in a context where NumPy raises no warnings.

    It uses, from its namespace: the runs, `<run>_scratch` to make a workspace and `<run>_free`,
    the list of those not in use; the leaves; `bind`, `MISSING`, `ndarray`; `dtype<i>` of each
    argument; and `contexts`, the list of contexts not in use, with `new_context`.
    """
    arguments = [f"a{index}" for index in range(len(signature.inputs))]
    body = list(_body(route, has_scratch))
    lines = [f"def walk({', '.join(arguments)}):", *(INDENT + line for line in body)]
    given = _tuple(arguments)[1:-1]
    entry = ENTRY.format(
        parameters="".join(f", {a}=MISSING" for a in arguments) + ", /",
        unusual=_unusual(signature),
        rebound=f"{given} = " if arguments else "",
        given=given,
        given_last="".join(f", {a}" for a in arguments),
    )
    return "\n".join(lines) + "\n\n" + entry


def _unusual(signature: Signature) -> str:
    """Whether a call is anything but well-formed NumPy arrays, given by position."""
    tests = [
        f"type(a{index}) is not ndarray or a{index}.dtype is not dtype{index} "
        f"or a{index}.shape != {port.shape}"
        for index, port in enumerate(signature.inputs)
    ]
    joined = f"\n{INDENT * 2}or ".join([*tests, "rest or named"])
    return f"(\n{INDENT * 2}{joined}\n{INDENT})"


def _body(route: Route, has_scratch: Callable[[str], bool]) -> Iterable[str]:
    """The statements of a walk; the tuple that a last run gives is handed on where it fits."""
    last = route.calls[-1] if route.calls else None
    for call, dead in zip(route.calls, _last_uses(route), strict=True):
        plain = f"{call.run}({', '.join(call.inputs)})"
        if call is last and call.outputs == route.results and not has_scratch(call.run):
            yield f"return {plain}"
            return
        results = f"{_tuple(call.outputs)[1:-1]} = " if call.outputs else ""
        if has_scratch(call.run):
            yield from _with_scratch(call, results)
        else:
            yield results + plain
        if dead and call is not last:
            yield f"del {', '.join(dead)}"
    yield f"return {_tuple(_owned(route))}"


def _with_scratch(call: Call, results: str) -> Iterable[str]:
    """A call with a workspace; one that raises does not give it back."""
    yield from (
        "try:",
        f"{INDENT}scratch = {call.run}_free.pop()",
        "except IndexError:",
        f"{INDENT}scratch = {call.run}_scratch()",
        f"{results}{call.run}({', '.join((*call.inputs, 'scratch'))})",
        f"{call.run}_free.append(scratch)",
    )


def _last_uses(route: Route) -> list[list[str]]:
    """For each call, the values of earlier runs that nothing reads after it."""
    alive = set(route.results)
    dying: list[list[str]] = []
    for call in reversed(route.calls):
        named = dict.fromkeys((*call.inputs, *call.outputs))
        dying.append([name for name in named if name.startswith("v") and name not in alive])
        alive.update(named)
    return dying[::-1]


def _owned(route: Route) -> list[str]:
    """
    The results as expressions, so that each has memory of its own.

    A result that is an argument, a constant or a weight, or that was named before, is copied.
    """
    taken: set[str] = set()
    expressions: list[str] = []
    for name in route.results:
        owned = name.startswith("v") and name not in taken
        expressions.append(name if owned else f"{name}.copy()")
        taken.add(name)
    return expressions


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' * (len(items) == 1)})"
