# SPDX-License-Identifier: MIT OR Apache-2.0
"""Times calls of an executable, kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fuel_passes.planning.topology import resolve
from fuel_runtime.call.profile import Profile, profile_of
from fuel_runtime.call.trace_events import Count
from fuel_runtime.compile.tracing import Observing, recorder_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from fuel_runtime.compile.code import Code


def profile(
    call: Callable[[], None], repeats: int, observing: Observing, code: Code, module: ModuleOp
) -> Profile:
    """Returns the profile of so many calls, after one that nobody times."""
    recorder = recorder_of(code, module, one_by_one=True)
    with observing(recorder):
        call()
        recorder.events.clear()
        for _ in range(repeats):
            call()
    # Other threads may have called at the same time.
    own = [e for e in recorder.events if not isinstance(e, Count) and e.lane == recorder.lane]
    return profile_of(own, code.signature.entry, resolve(module).name)
