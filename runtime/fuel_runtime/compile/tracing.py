# SPDX-License-Identifier: MIT OR Apache-2.0
"""Observes the calls of an executable, and writes traces of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self

from fuel_dialect.errors import TraceError
from fuel_passes.commands import check_place
from fuel_runtime.call.observing import observed, rebound
from fuel_runtime.call.trace_events import Event, chrome
from fuel_runtime.call.tracing import Recorder
from fuel_runtime.call.watched_live import WatchedLive
from fuel_runtime.compile.observed_runs import observed_runs
from fuel_runtime.compile.renewal import METHODS
from fuel_runtime.whole_files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from xdsl.dialects.builtin import ModuleOp

    from fuel_runtime.call.live import Live
    from fuel_runtime.compile.code import Code

Observing = Callable[[Recorder], AbstractContextManager[None]]
"""Lets a recorder hear of the calls in a block."""

_TRACED: set[type] = set()
_LOCK = threading.Lock()


class Trace(AbstractContextManager["Trace"]):
    """
    Traces the calls of one executable that begin inside of the block, in every thread.

    At the end of the block it writes the file, as a whole or not at all, also after an error.
    Raises `TraceError` for an executable that is being traced already, and `OSError` for a file
    that cannot be written.
    """

    def __init__(
        self,
        path: Path,
        newest: Callable[[], tuple[Observing, Code, ModuleOp]],
    ):
        self._path = path
        self._newest = newest
        self._recorder: Recorder | None = None
        self._observed: AbstractContextManager[None] | None = None
        self._code: Code | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        """The events so far, in the order in which they ended."""
        return () if self._recorder is None else tuple(self._recorder.events)

    def __enter__(self) -> Self:
        check_place(self._path)
        observing, self._code, module = self._newest()
        recorder = recorder_of(self._code, module, one_by_one=False)
        observed = observing(recorder)
        recorder.begin()
        observed.__enter__()
        self._recorder, self._observed = recorder, observed
        return self

    def __exit__(self, *error: object) -> None:
        assert self._observed is not None and self._code is not None  # noqa: PT018
        self._observed.__exit__(None, None, None)
        present = self._code.parts.devices
        devices = (present.host, *present.present)
        hardware = {device.name.label: device.identity for device in devices}
        content = chrome(self.events, {"fuel": version("fuel-compiler"), "devices": hardware})
        write_whole(self._path, lambda file: file.write(content))


def recorder_of(code: Code, module: ModuleOp, *, one_by_one: bool) -> Recorder:
    """
    Returns a recorder for the calls of an executable.

    With `one_by_one` it has each kernel of a device launched by itself, and counts no memory.
    """
    devices = code.parts.devices
    labels = {device.name.label: device for device in (devices.host, *devices.present)}
    runs = observed_runs(code, module, one_by_one)
    return Recorder(runs, labels, counts_memory=not one_by_one)


@contextmanager
def observing(kind: type, code: Code, live: Live | None, recorder: Recorder) -> Iterator[None]:
    """
    Lets a recorder hear of the calls of an executable that begin in the block.

    `kind` is the class of that executable alone. Its method is changed for the time of the block:
    a call that nobody observes runs what it runs ever. Raises `TraceError` where somebody observes
    it already.
    """
    with _LOCK:
        if kind in _TRACED:
            raise TraceError(
                f"{code.signature.entry} is being traced or profiled already; one at a time"
            )
        _TRACED.add(kind)
    with METHODS:
        plain = kind.__call__
        kind.__call__ = told = _observed_call(plain, code, live, recorder)
    try:
        yield
    finally:
        with METHODS:
            if kind.__call__ is told:  # the program may be planned anew by now
                kind.__call__ = plain
        _TRACED.discard(kind)
        recorder.forget()


def _observed_call(
    plain: Callable[..., Any], code: Code, live: Live | None, recorder: Recorder
) -> Callable[..., Any]:
    """Returns the method of an executable with a recorder around it and inside of it."""
    parts, entry = code.parts, code.signature.entry
    settled = [] if live is not None else parts.route.decisions
    if live is not None:
        inner = rebound(plain, {"live": WatchedLive(live, recorder)})
    else:
        inner = observed(plain, parts.route, recorder)

    @wraps(plain)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        with recorder.call(entry):
            for branch, _ in settled:
                recorder.picked(parts.survey.decisions[branch], parts.choices[branch], True)
            return inner(self, *args, **named)

    return call
