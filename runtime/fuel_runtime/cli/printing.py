# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints what `fuel-run` has to say: results, notes and errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from fuel_dialect import dtypes
from fuel_passes.commands import tell
from fuel_runtime.call.signature import describe

if TYPE_CHECKING:
    from fuel_runtime.call.report import Report
    from fuel_runtime.call.signature import Array, Signature

NAME = "fuel-run"

WHOLE = 64
"""The most elements of a result that is printed whole."""


def note_unreached(report: Report, forced: Mapping[str, int]) -> None:
    """Prints a note for each decision that was forced in vain."""
    for branch in report.branches:
        if branch.decision in forced and not branch.on_route:
            tell(
                NAME,
                "note",
                f"--force {branch.decision}={forced[branch.decision]} has no effect: it is inside "
                "an arm that is not chosen; force the decision around it too",
            )


def state_lines(signature: Signature, calls: int) -> Iterator[str]:
    """Yields a line that names the members of the state, if there are any."""
    if signature.members:
        members = ", ".join(str(member.port) for member in signature.members)
        yield f"state: starts at zero, and is gone after {calls} call{'s'[: calls > 1]}: {members}"


def result_lines(results: Mapping[str, Array]) -> Iterator[str]:
    """Yields the type of each result, and its elements or a summary of them."""
    for name, array in results.items():
        dtype = dtypes.of(array.dtype)
        yield f"{name}: {describe(dtype.name, array.shape)}"
        wide = array.astype(np.float64) if dtype.kind in ("float", "storage") else array
        if array.size <= WHOLE:
            yield np.array2string(wide, separator=", ", precision=6)
        else:
            yield _summary(wide)


def _summary(array: Array) -> str:
    """Returns range and mean of the finite elements, and how many are not finite."""
    finite = array[np.isfinite(array)]
    counts = f"{np.count_nonzero(np.isnan(array))} NaN, {np.count_nonzero(np.isinf(array))} inf"
    if not finite.size:
        return f"no finite element, {counts}"
    with np.errstate(all="ignore"):
        low, high, mean = finite.min(), finite.max(), finite.mean(dtype=np.float64)
    first = ", ".join(f"{value:.6g}" for value in array.reshape(-1)[:6])
    return f"min {low:.6g}, max {high:.6g}, mean {mean:.6g}, {counts}, first {first}"
