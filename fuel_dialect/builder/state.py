# SPDX-License-Identifier: MIT OR Apache-2.0
"""The state of a graph: records what a member of it is in the next call."""

from __future__ import annotations

from fuel_dialect.builder.handle import Handle
from fuel_dialect.builder.trace import Trace, block_of
from fuel_dialect.errors import DTypeError, GraphError, ShapeError
from fuel_dialect.tensors import describe


def update_state(trace: Trace, state: Handle, new: Handle) -> None:
    """
    Record the next value of a member of the state; once for each member.

    Raises `GraphError` for a tensor that is no state of this graph, `ShapeError` and `DTypeError`.
    """
    with trace.lock:
        arguments = enumerate(trace.root.block.args)
        index = next((i for i, argument in arguments if argument is state.value), -1)
        if index not in trace.updates:
            raise GraphError(
                f"update: {describe(state.value)} is no state of this graph; make it with "
                "graph.state"
            )
        if trace.updates[index] is not state.value:
            raise GraphError(f"update: {describe(state.value)} is updated already; once is all")
        state.require_same_graph("update", new, "the new value")
        _check_next(trace, state, new)
        trace.updates[index] = new.value


def _check_next(trace: Trace, state: Handle, new: Handle) -> None:
    if block_of(new.value) is not trace.root.block:
        raise GraphError("update: the new value was made in an arm or a body; return it")
    if new.shape != state.shape:
        raise ShapeError(
            f"update: the state is {list(state.shape)}, the new value {list(new.shape)}"
        )
    if new.dtype != state.dtype:
        raise DTypeError(
            f"update: dtype mismatch: the state is {state.dtype}, the new value {new.dtype}"
        )
