# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the Python method that checks the arguments of a call and walks a route."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from fuel_runtime.call.route import Call, Route, Transfer, tuple_of
from fuel_runtime.call.signature import Signature

INDENT = "    "

ENTRY = """\
def call(self{parameters}, *rest, **named):
    try:
        if {unusual}:
            {rebound}bind(({given}), rest, named)
            rest, named = (), {{}}
{walk}
    except FuelError as error:
        if not is_outdated(self, error):
            raise
    except MemoryError as error:
        raise out_of_memory(what, error) from error
    return self({again}*rest, **named)
"""

STATEFUL_ENTRY = """\
def call(self{parameters}, *rest, state=None, **named):
    use = None
    try:
        if {unusual}:
            {rebound}bind(({given}), rest, named)
            rest, named = (), {{}}
        use = begin(state)
        {members} = use.take()
{walk}
    except BaseException as error:
        if use is not None:
            use.fail(error)
        if is_unexplained(error):
            raise out_of_memory(what, error) from error
        if not is_outdated(self, error):
            raise
    return self({again}*rest, state=state, **named)
"""


LIVE = """\
{unsettled}:
    return live.stream({use}, {given})
try:
    return live.walk({use}, {given_plain})
except left as error:
    return live.leave(error, {use}, {given})
"""


def write(route: Route, signature: Signature) -> str:
    """
    Returns the source of `call(self, a0, ...)`, the method that checks arguments and walks a route.

    It uses, from its namespace: the runs; the transfers; the leaves; `bind`, `MISSING`, `ndarray`,
    and `arrays`, the types that an array of any device may have; `dtype<i>` of each argument;
    `out_of_memory` and `is_unexplained` (`call.host_memory`), with `what` as the call is named
    there; and `is_outdated`, which says if a call that failed is made again by another plan. Where
    there is state, it uses `begin`, which gives a `Use` of it (`call.state`).
    """
    return _entry(signature, route.mobile, _statements(route, signature))


COUNTED = """\
counter.left -= 1
if counter.left <= 0 or live.epoch != telemetry.epoch"""

SETTLED = "if live.epoch != telemetry.epoch"


def write_live(signature: Signature, mobile: Collection[int], is_counted: bool) -> str:
    """
    Returns the source of `call(self, a0, ...)` for a program whose route is chosen as it runs.

    It uses what `write` says, and `live` with `telemetry`: while their epochs are the same, the
    walk of the settled route; `left` holds the errors after which another arm is tried. With
    `is_counted`, `counter` says when a call is timed (`timed_calls`).
    """
    everything = _arguments(signature)
    use = "use" if signature.members else "None"
    given, plain = tuple_of(everything), tuple_of(everything)[1:-1]
    unsettled = COUNTED if is_counted else SETTLED
    text = LIVE.format(unsettled=unsettled, use=use, given=given, given_plain=plain)
    return _entry(signature, mobile, text.splitlines())


def write_walk(route: Route, signature: Signature) -> tuple[str, tuple[int | None, ...]]:
    """
    Returns the source of `walk(use, a0, ...)`, the straight walk of a settled route.

    With it comes, for each number of a line, the call of the route that stands there.
    """
    parameters = ", ".join(["use", *_arguments(signature)])
    lines = list(_numbered(route, signature))
    source = [f"def walk({parameters}):", *(INDENT + line for line, _ in lines)]
    return "\n".join(source) + "\n", (None, None, *(number for _, number in lines))


def _arguments(signature: Signature) -> list[str]:
    return [f"a{index}" for index in range(len(signature.arguments))]


def _entry(signature: Signature, mobile: Collection[int], lines: Iterable[str]) -> str:
    everything = _arguments(signature)
    members = signature.members
    inputs = [everything[index] for index in signature.positions]
    given = tuple_of(inputs)[1:-1]
    return (STATEFUL_ENTRY if members else ENTRY).format(
        parameters="".join(f", {a}=MISSING" for a in inputs) + ", /",
        unusual=_unusual(signature, mobile),
        rebound=f"{given} = " if inputs else "",
        given=given,
        again=f"{given.rstrip(',')}, " if inputs else "",
        members=tuple_of([everything[m.argument] for m in members])[1:-1],
        walk="\n".join(INDENT * 2 + line for line in lines),
    )


def aliasing(signature: Signature) -> dict[int, int]:
    """The results that are the next values of donated arguments."""
    return {member.result: member.argument for member in signature.members}


def _unusual(signature: Signature, mobile: Collection[int]) -> str:
    """Returns the test of a call for anything but well-formed arrays, given by position."""
    tests = [
        f"{_is_no_array(f'a{index}', index in mobile)} "
        f"or a{index}.dtype is not dtype{index} or a{index}.shape != {port.shape}"
        for index, port in zip(signature.positions, signature.inputs, strict=True)
    ]
    joined = f"\n{INDENT * 3}or ".join([*tests, "rest or named"])
    return f"(\n{INDENT * 3}{joined}\n{INDENT * 2})"


def _is_no_array(name: str, is_mobile: bool) -> str:
    """Returns the test of a value for anything but an array of the host, or of any device."""
    if not is_mobile:
        return f"type({name}) is not ndarray"
    return f"type({name}) not in arrays"


def _statements(route: Route, signature: Signature) -> Iterable[str]:
    """Yields the statements of a walk."""
    return (line for line, _ in _numbered(route, signature))


def _numbered(route: Route, signature: Signature) -> Iterator[tuple[str, int | None]]:
    """
    Yields the statements of a walk, each with the number of the call that it makes.

    The tuple that a last run gives is handed on if it fits.
    """
    last, members = route.calls[-1] if route.calls else None, signature.members
    for number, (call, dead) in enumerate(zip(route.calls, last_uses(route), strict=True)):
        is_whole = call.outputs == route.results and not isinstance(call, Transfer)
        if call is last and is_whole and not members:
            yield f"return {_called(call)}", number
            return
        yield from _call_lines(call, number, () if call is last else dead, signature)
    for line in _ending(signature, _owned(route, signature)):
        yield line, None


def _called(call: Call) -> str:
    return f"{call.function}({', '.join(call.inputs)})"


def _call_lines(
    call: Call, number: int, dead: Sequence[str], signature: Signature
) -> Iterator[tuple[str, int | None]]:
    """Yields a call, what it counts before and what nothing reads after it."""
    if call.reuses and signature.members:
        yield "use.progress.writing += 1", None
    yield f"{call.unpacked} = {_called(call)}" if call.outputs else _called(call), number
    if dead:
        yield f"del {', '.join(dead)}", None


def read_of(calls: Sequence[Call]) -> tuple[str, ...]:
    """Returns the values that some calls read and do not make; leaves aside."""
    made = {name for call in calls for name in call.outputs}
    read = dict.fromkeys(name for call in calls for name in call.inputs)
    return tuple(n for n in read if n not in made and not n.startswith("leaf"))


def write_stretch(
    calls: Sequence[Call], dead: Mapping[str, int], signature: Signature
) -> tuple[str, tuple[int | None, ...]]:
    """
    Returns the source of `walk(use, values)`, the calls between two decisions.

    `values` holds values by name: those that calls read, and then also those that they make, but
    none that was written over or that nothing reads any more. `dead` maps the latter to the number
    of the call after which that is so; -1 where it is so from the beginning. With the source come
    the calls by their lines, as from `write_walk`.
    """
    dying: dict[int, list[str]] = {}
    for name, number in dead.items():
        dying.setdefault(number, []).append(name)
    lines: list[tuple[str, int | None]] = []
    lines += [(f"values.pop({name!r}, None)", None) for name in dying.get(-1, ())]
    taken = {*dead, *(call.inputs[i] for call in calls for i in call.reuses.values())}
    for name in read_of(calls):
        get = f"values.pop({name!r})" if name in taken else f"values[{name!r}]"
        lines.append((f"{name} = {get}", None))
    for number, call in enumerate(calls):
        lines += _call_lines(call, number, dying.get(number, ()), signature)
    kept = [name for name in dict.fromkeys(n for c in calls for n in c.outputs) if name not in dead]
    lines += [(f"values[{name!r}] = {name}", None) for name in kept]
    source = ["def walk(use, values):", *(INDENT + line for line, _ in lines or [("pass", None)])]
    return "\n".join(source) + "\n", (None, None, *(number for _, number in lines))


def _ending(signature: Signature, results: list[str]) -> Iterator[str]:
    """Yields what keeps the next values of the state, and returns the other results."""
    if not signature.members:
        yield f"return {tuple_of(results)}"
        return
    state = aliasing(signature)
    yield f"results = {tuple_of([r for i, r in enumerate(results) if i not in state])}"
    yield f"use.keep({tuple_of([results[member.result] for member in signature.members])})"
    yield "return results"


def last_uses(route: Route) -> list[list[str]]:
    """For each call, the values of earlier runs that nothing reads after it."""
    alive = set(route.results)
    dying: list[list[str]] = []
    for call in reversed(route.calls):
        named = dict.fromkeys((*call.inputs, *call.outputs))
        dying.append([name for name in named if name[0] in "vw" and name not in alive])
        alive.update(named)
    return dying[::-1]


def _owned(route: Route, signature: Signature) -> list[str]:
    """Returns the results as expressions, so that each has memory of its own."""
    return [f"{name}.copy()" if is_copied else name for name, is_copied in owned(route, signature)]


def owned(route: Route, signature: Signature) -> list[tuple[str, bool]]:
    """
    Returns the names of the results, and whether each has to be copied to have its own memory.

    A result that is an argument, a constant or a weight, or that was named before, is copied. State
    comes first: its next value is what the walk has computed, or the old one as it is.
    """
    state = aliasing(signature)
    sources = {transfer.result: transfer.source for transfer in route.transfers}
    used: set[str] = set()
    found: dict[int, tuple[str, bool]] = {}
    for index in sorted(range(len(route.results)), key=lambda index: index not in state):
        name = route.results[index]
        is_own = name.startswith("v")
        if index in state and f"a{state[index]}" in (name, sources.get(name)):
            is_own = True
        found[index] = name, not is_own or name in used
        used.add(name)
    return [found[index] for index in range(len(route.results))]
