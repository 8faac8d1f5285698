# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says what an observer of calls hears: their runs, transfers, picks and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fuel_runtime.call.route import Call, Route
    from fuel_runtime.picker.decision import Decision, Pick

Function = Callable[..., Any]


class Observer(Protocol):
    """Observes calls; several threads may tell it something at once."""

    def function(self, call: Call, function: Function) -> Function:
        """Returns a function of the same results for what a route calls, which is observed."""
        ...

    def picked(self, decision: Decision, pick: Pick, is_settled: bool) -> None:
        """Hears which arm a call takes; a settled one was chosen in an earlier call."""
        ...

    def left(self, path: str, arm: int, device: str, error: str) -> None:
        """Hears that a call leaves an arm, since a device failed."""
        ...


def observed(function: Function, route: Route, observer: Observer) -> Function:
    """
    Returns a generated function that does the same with functions that are observed.

    It has the very code of the other, so that what is observed is what runs.
    """
    assert isinstance(function, FunctionType)
    names = function.__globals__
    return rebound(
        function,
        {call.function: observer.function(call, names[call.function]) for call in route.calls},
    )


def rebound(function: Function, names: Mapping[str, Any]) -> Function:
    """Returns a function with the code of another, for which some names stand for others."""
    assert isinstance(function, FunctionType)
    other = FunctionType(
        function.__code__,
        {**function.__globals__, **names},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    other.__kwdefaults__ = function.__kwdefaults__
    return other
