# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the Python method that checks the arguments of a call and walks a route."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from fuel_runtime.call.arguments import Signature
from fuel_runtime.call.route import Route, Transfer, tuple_of

INDENT = "    "

ENTRY = """\
def call(self{parameters}, *rest, **named):
    try:
        if {unusual}:
            {rebound}bind(({given}), rest, named)
{walk}
    except FuelError:
        raise
    except MemoryError as error:
        raise out_of_memory(what, error) from error
"""

STATEFUL_ENTRY = """\
def call(self{parameters}, *rest, state=None, **named):
    use = None
    try:
        if {unusual}:
            {rebound}bind(({given}), rest, named)
        use = begin(state)
        {members} = use.take()
{walk}
    except BaseException as error:
        if use is not None:
            use.fail(error)
        if is_unexplained(error):
            raise out_of_memory(what, error) from error
        raise
"""


def write(route: Route, signature: Signature) -> str:
    """
    Returns the source of `call(self, a0, ...)`, the method that checks arguments and walks a route.

    It uses, from its namespace: the runs; the transfers; the leaves; `bind`, `MISSING`, `ndarray`,
    and `arrays`, the types that an array of any device may have; `dtype<i>` of each argument; and
    `out_of_memory` and `is_unexplained` (`call.host_memory`), with `what` as the call is named
    there. Where there is state, it uses `begin`, which gives a `Use` of it (`call.state`).
    """
    everything = [f"a{index}" for index in range(len(signature.arguments))]
    members = signature.members
    inputs = [everything[index] for index in signature.positions]
    lines = _statements(route, signature)
    given = tuple_of(inputs)[1:-1]
    return (STATEFUL_ENTRY if members else ENTRY).format(
        parameters="".join(f", {a}=MISSING" for a in inputs) + ", /",
        unusual=_unusual(signature, route.mobile),
        rebound=f"{given} = " if inputs else "",
        given=given,
        members=tuple_of([everything[m.argument] for m in members])[1:-1],
        walk="\n".join(INDENT * 2 + line for line in lines),
    )


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
    joined = f"\n{INDENT * 3}or ".join([*tests, "rest or named"])
    return f"(\n{INDENT * 3}{joined}\n{INDENT * 2})"


def _is_no_array(name: str, is_mobile: bool) -> str:
    """Whether a value is no array of the host, nor, where that will do, of a device."""
    if not is_mobile:
        return f"type({name}) is not ndarray"
    return f"type({name}) not in arrays"


def _statements(route: Route, signature: Signature) -> Iterable[str]:
    """Yields the statements of a walk; the tuple that a last run gives is handed on if it fits."""
    last, members = route.calls[-1] if route.calls else None, signature.members
    for call, dead in zip(route.calls, _last_uses(route), strict=True):
        if call.reuses and members:
            yield "use.progress.writing += 1"
        plain = f"{call.function}({', '.join(call.inputs)})"
        is_whole = call.outputs == route.results and not isinstance(call, Transfer)
        if call is last and is_whole and not members:
            yield f"return {plain}"
            return
        yield f"{call.unpacked} = {plain}" if call.outputs else plain
        if dead and call is not last:
            yield f"del {', '.join(dead)}"
    yield from _ending(signature, _owned(route, signature))


def _ending(signature: Signature, results: list[str]) -> Iterator[str]:
    """Yields what keeps the next values of the state, and returns the other results."""
    if not signature.members:
        yield f"return {tuple_of(results)}"
        return
    state = _aliasing(signature)
    yield f"results = {tuple_of([r for i, r in enumerate(results) if i not in state])}"
    yield f"use.keep({tuple_of([results[member.result] for member in signature.members])})"
    yield "return results"


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
