# SPDX-License-Identifier: MIT OR Apache-2.0
"""
From an optimised function to a route, and from a route to the Python function that walks it.

`survey` finds every decision and every run that this machine can execute. `trace` follows one
arm of each branch, which leaves a straight list of calls. `write` makes source text of that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import DecisionError, LoweringError
from fuel_dialect.ops.base import AnyTensor, tensor_type
from fuel_dialect.ops.control import BranchOp, RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.traits import Leaf
from fuel_passes.planning.residency import HOST_DEVICE, argument_devices, result_devices
from fuel_runtime.call.arguments import Signature
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
    """One function, called: its name, its arguments and the names of its results."""

    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reuses: Mapping[int, int] = field(default_factory=dict, kw_only=True)
    """The outputs that take over the buffer of an input, and that input."""

    @property
    def unpacked(self) -> str:
        """What takes the results: a function gives a tuple of them."""
        return _tuple(self.outputs)[1:-1]


@dataclass(frozen=True)
class Transfer(Call):
    """
    A value, brought to another device.

    What is read on the device `to` by then is the result; the value itself stays where it is.
    """

    type: AnyTensor
    origin: DeviceAttr | None
    """Where the value is; None for an argument, which comes as the caller has it."""
    to: DeviceAttr

    @property
    def source(self) -> str:
        """The name of the value."""
        return self.inputs[0]

    @property
    def result(self) -> str:
        """The name of it on the other device."""
        return self.outputs[0]

    @property
    def unpacked(self) -> str:
        """What takes the result: a transfer gives the value itself."""
        return self.result


Update = Literal["in place", "new", "none"]
"""A member of the state is written where it lies, changes places with a new buffer, or stays."""


@dataclass(frozen=True)
class Route:
    """
    The calls of one choice of arms, in order, and the names of what the function returns.

    Names: `a0`.. are arguments, `leaf0`.. leaves, `v0`.. values with memory of their own, and `w0`
    .. arguments and leaves on a device, which may be as they came.
    """

    calls: tuple[Call, ...]
    results: tuple[str, ...]
    branches: frozenset[BranchOp]
    """The branches that the route comes to."""
    mobile: frozenset[int] = frozenset()
    """Positions of the arguments that are read on, or declared to be on, another device."""

    @property
    def runs(self) -> list[str]:
        """The runs, in order."""
        return [call.function for call in self.calls if not isinstance(call, Transfer)]

    def update(self, argument: int, result: int) -> Update:
        """How a donated argument becomes the result that is its next value."""
        makers = {output: call for call in self.calls for output in call.outputs}
        name, steps = self.results[result], 0
        while name in makers and name != f"a{argument}":
            call = makers[name]
            if isinstance(call, Transfer):
                name = call.source
                continue
            operand = call.reuses.get(call.outputs.index(name))
            if operand is None:
                return "new"
            name, steps = call.inputs[operand], steps + 1
        if name != f"a{argument}":
            return "new"
        return "in place" if steps else "none"

    @property
    def transfers(self) -> list[Transfer]:
        """The transfers, in order."""
        return [call for call in self.calls if isinstance(call, Transfer)]


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
    unavailable = _why_not(body, devices, "", decisions) or _why_not_ends(function, devices)
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


def _why_not_ends(function: FuncOp, devices: Devices) -> str | None:
    """Why arguments or results cannot live where they are declared to."""
    body = single_block(function)
    ends = (*argument_devices(function, body), *result_devices(function))
    return next((reason for end in ends if (reason := devices.why_not(end))), None)


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

    Runs whose results only arms that are not chosen read are left out. A value goes to a device
    once; arguments that only the host reads need no transfer, wherever they come from.
    """
    tracer = _Tracer(survey, choices)
    body = single_block(function)
    for index, argument in enumerate(body.args):
        tracer.names[argument] = f"a{index}"
    tracer.walk(body)
    end = body.last_op
    values = () if end is None else end.operands
    devices = result_devices(function)
    results = tuple(tracer.at(v, d) for v, d in zip(values, devices, strict=True))
    calls = _read_calls(tracer.calls, results)
    declared = argument_devices(function, body)
    away = {i for i, device in enumerate(declared) if device != HOST_DEVICE}
    return _settled(Route(calls, results, frozenset(tracer.branches)), away)


def _read_calls(calls: Sequence[Call], results: Iterable[str]) -> tuple[Call, ...]:
    """The calls that a result depends on."""
    wanted = set(results)
    kept: list[Call] = []
    for call in reversed(calls):
        if not wanted.isdisjoint(call.outputs):
            wanted.update(call.inputs)
            kept.append(call)
    return tuple(reversed(kept))


def _settled(route: Route, away: set[int]) -> Route:
    """The route without transfers to the host of arguments that nothing else reads."""
    given = [t for t in route.transfers if t.origin is None]
    away = away | {int(t.source[1:]) for t in given if t.to != HOST_DEVICE}
    idle = [t for t in given if int(t.source[1:]) not in away]
    if not idle:
        return replace(route, mobile=frozenset(away))
    same = {transfer.result: transfer.source for transfer in idle}

    def renamed(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(same.get(name, name) for name in names)

    calls = tuple(replace(c, inputs=renamed(c.inputs)) for c in route.calls if c not in idle)
    return replace(route, calls=calls, results=renamed(route.results), mobile=frozenset(away))


class _Tracer:
    """Walks blocks in order, and brings values to where they are read."""

    def __init__(self, survey: Survey, choices: Mapping[BranchOp, Choice]):
        self.survey = survey
        self.choices = choices
        self.names: dict[SSAValue, str] = {}
        self.calls: list[Call] = []
        self.branches: set[BranchOp] = set()
        self.counts = {"v": 0, "w": 0}
        self.homes: dict[str, DeviceAttr] = {}
        self.roots: dict[str, str] = {}
        self.copies: dict[tuple[str, DeviceAttr], str] = {}

    def walk(self, block: Block) -> None:
        """Visit all but the terminator of a block."""
        for op in block.ops:
            self._visit(op)

    def _visit(self, op: Operation) -> None:
        if isinstance(op, RunOp):
            self._call(op)
        elif isinstance(op, BranchOp):
            self._follow(op)
        elif isinstance(op, TransferOp):
            self.names[op.result] = self.at(op.input, op.to)
        elif op in self.survey.leaves:
            name = self.names[op.results[0]] = self.survey.leaves[op]
            self._lives(name, HOST_DEVICE)

    def _lives(self, name: str, device: DeviceAttr) -> None:
        self.homes[name] = device
        self.copies[name, device] = name

    def at(self, value: SSAValue, device: DeviceAttr) -> str:
        """The name of a value on a device, where it is brought unless it is there."""
        name = self.names[value]
        root = self.roots.get(name, name)
        known = self.copies.get((root, device))
        if known is not None:
            return known
        made = self._fresh("v" if root.startswith("v") else "w")
        self.homes[made] = device
        self.roots[made] = root
        self.copies[root, device] = made
        move = f"move_{made}"
        origin = self.homes.get(name)
        type = tensor_type(value)
        self.calls.append(Transfer(move, (name,), (made,), type, origin, device))
        return made

    def _fresh(self, letter: str) -> str:
        self.counts[letter] += 1
        return f"{letter}{self.counts[letter] - 1}"

    def _call(self, run: RunOp) -> None:
        device = run.target.device
        inputs = tuple(self.at(value, device) for value in run.inputs)
        outputs = tuple(self._fresh("v") for _ in run.outputs)
        for name in outputs:
            self._lives(name, device)
        self.names.update(zip(run.outputs, outputs, strict=True))
        name = self.survey.runs[run]
        self.calls.append(Call(name, inputs, outputs, reuses=run.reused()))

    def _follow(self, branch: BranchOp) -> None:
        self.branches.add(branch)
        block = branch.arm_regions[self.choices[branch].arm].block
        self.names.update(
            (argument, self.names[value])
            for argument, value in zip(block.args, branch.inputs, strict=True)
        )
        self.walk(block)
        end = block.last_op
        assert end is not None
        self.names.update(
            (output, self.names[value])
            for output, value in zip(branch.outputs, end.operands, strict=True)
        )


INDENT = "    "

STATEFUL_ENTRY = """
def call(self{parameters}, *rest, state=None, **named):
    if {unusual}:
        {rebound}bind(({given}), rest, named)
    {members} = held(state)
    try:
        try:
            context = contexts.pop()
        except IndexError:
            context = new_context()
        results = context.run(walk, state{all_last})
        contexts.append(context)
    except BaseException as error:
        state.fail(error)
        raise
    state.keep({kept})
    return {outputs}
"""

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
    the list of those not in use; the transfers; the leaves; `bind`, `MISSING`, `ndarray`, and
    `arrays`, the types that an array of any device may have; `dtype<i>` of each argument; and
    `contexts`, the list of contexts not in use, with `new_context`. Where there is state it uses
    `held`, and the walk, which begins with the state, gives all results of the function.
    """
    everything = [f"a{index}" for index in range(len(signature.arguments))]
    members = signature.members
    inputs = [everything[index] for index in signature.positions]
    parameters = [*(["state"] if members else []), *everything]
    body = list(_body(route, signature, has_scratch))
    lines = [f"def walk({', '.join(parameters)}):", *(INDENT + line for line in body)]
    given = _tuple(inputs)[1:-1]
    results = [f"results[{index}]" for index in range(len(route.results))]
    entry = (STATEFUL_ENTRY if members else ENTRY).format(
        parameters="".join(f", {a}=MISSING" for a in inputs) + ", /",
        unusual=_unusual(signature, route.mobile),
        rebound=f"{given} = " if inputs else "",
        given=given,
        given_last="".join(f", {a}" for a in inputs),
        all_last="".join(f", {a}" for a in everything),
        members=_tuple([everything[m.argument] for m in members])[1:-1],
        kept=_tuple([results[m.result] for m in members]),
        outputs=_tuple([r for i, r in enumerate(results) if i not in _aliasing(signature)]),
    )
    return "\n".join(lines) + "\n\n" + entry


def _aliasing(signature: Signature) -> dict[int, int]:
    """The results that are the next values of donated arguments."""
    return {member.result: member.argument for member in signature.members}


def _unusual(signature: Signature, mobile: Collection[int]) -> str:
    """Whether a call is anything but well-formed arrays, given by position."""
    tests = [
        f"{_is_no_array(f'a{index}', index in mobile)} "
        f"or a{index}.dtype is not dtype{index} or a{index}.shape != {port.shape}"
        for index, port in zip(signature.positions, signature.inputs, strict=True)
    ]
    joined = f"\n{INDENT * 2}or ".join([*tests, "rest or named"])
    return f"(\n{INDENT * 2}{joined}\n{INDENT})"


def _is_no_array(name: str, is_mobile: bool) -> str:
    """Whether a value is no array of the host, nor, where that will do, of a device."""
    if not is_mobile:
        return f"type({name}) is not ndarray"
    return f"type({name}) not in arrays"


def _body(route: Route, signature: Signature, has_scratch: Callable[[str], bool]) -> Iterable[str]:
    """The statements of a walk; the tuple that a last run gives is handed on where it fits."""
    last = route.calls[-1] if route.calls else None
    for call, dead in zip(route.calls, _last_uses(route), strict=True):
        if call.reuses and signature.members:
            yield "state.writing += 1"
        plain = f"{call.function}({', '.join(call.inputs)})"
        is_whole = call.outputs == route.results and not isinstance(call, Transfer)
        if call is last and is_whole and not has_scratch(call.function):
            yield f"return {plain}"
            return
        results = f"{call.unpacked} = " if call.outputs else ""
        if has_scratch(call.function):
            yield from _with_scratch(call, results)
        else:
            yield results + plain
        if dead and call is not last:
            yield f"del {', '.join(dead)}"
    yield f"return {_tuple(_owned(route, signature))}"


def _with_scratch(call: Call, results: str) -> Iterable[str]:
    """A call with a workspace; one that raises does not give it back."""
    yield from (
        "try:",
        f"{INDENT}scratch = {call.function}_free.pop()",
        "except IndexError:",
        f"{INDENT}scratch = {call.function}_scratch()",
        f"{results}{call.function}({', '.join((*call.inputs, 'scratch'))})",
        f"{call.function}_free.append(scratch)",
    )


def _last_uses(route: Route) -> list[list[str]]:
    """For each call, the values of earlier runs that nothing reads after it."""
    alive = set(route.results)
    dying: list[list[str]] = []
    for call in reversed(route.calls):
        named = dict.fromkeys((*call.inputs, *call.outputs))
        dying.append([name for name in named if name[0] in "vw" and name not in alive])
        alive.update(named)
    return dying[::-1]


def _owned(route: Route, signature: Signature) -> list[str]:
    """
    The results as expressions, so that each has memory of its own.

    A result that is an argument, a constant or a weight, or that was named before, is copied. State
    comes first: its next value is what the walk has computed, or the old one as it is.
    """
    state = _aliasing(signature)
    sources = {transfer.result: transfer.source for transfer in route.transfers}
    taken: set[str] = set()
    expressions: dict[int, str] = {}
    for index in sorted(range(len(route.results)), key=lambda index: index not in state):
        name = route.results[index]
        owned = name.startswith("v")
        if index in state and f"a{state[index]}" in (name, sources.get(name)):
            owned = True
        expressions[index] = name if owned and name not in taken else f"{name}.copy()"
        taken.add(name)
    return [expressions[index] for index in range(len(route.results))]


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' * (len(items) == 1)})"
