# SPDX-License-Identifier: MIT OR Apache-2.0
"""An explanation as text, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterator

from fuel_explain.reports import (
    BodyReport,
    BranchReport,
    Explanation,
    FunctionReport,
    ItemReport,
    RunReport,
)


def to_text(explanation: Explanation) -> str:
    """Returns what `fuel-explain` prints."""
    return "\n".join(_lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    targets = ", ".join(explanation.targets)
    yield f"topology {explanation.topology} ({explanation.generation}): {targets}"
    for report in explanation.functions:
        yield ""
        yield f"@{report.function}"
        for number, item in enumerate(report.items):
            yield from _item(number, item)
        yield from _totals(report)
        yield from _decisions(report.body)
        if report.overlap is not None:
            yield f"  devices at once {report.overlap}"
        yield from (f"  memory on {memory}" for memory in report.memory)
        yield from (f"  dropped {said}" for said in report.dropped)


def _item(number: int, item: ItemReport, indent: str = "  ") -> Iterator[str]:
    yield f"{indent}{number:4} {', '.join([f'{item.kind} {item.item}', *notes(item)])}"
    for candidate in item.candidates:
        mark = "*" if candidate.chosen else " "
        why = f"refused: {candidate.refused}" if candidate.refused else _ns(candidate.price_ns)
        said = f"{why}  measured" if candidate.measured else why
        yield f"{indent}     {mark} {candidate.target:16} {candidate.source:9} {said}"


def notes(item: ItemReport) -> list[str]:
    """Yields the remarks on an item besides its candidates."""
    pinned = [f"pinned to {item.pin}"] if item.pin else []
    only_one = ["one target alone can run it"] if item.only_one else []
    only_generic = ["only a generic source can make it"] if item.only_generic else []
    return [*pinned, *only_one, *only_generic]


def _totals(report: FunctionReport) -> Iterator[str]:
    yield (
        f"  as planned {_ns(report.total_ns).removeprefix(' ')}: kernels {report.kernels_ns:,}, "
        f"transfers {report.transfers_ns:,}; {quality(report)}"
    )
    for device, total in report.alone_ns.items():
        yield f"  all on {device:10} {_ns(total)}"


def _decisions(body: BodyReport) -> Iterator[str]:
    for box in body.boxes:
        if isinstance(box, BranchReport):
            yield from _decision(box)


def _decision(branch: BranchReport) -> Iterator[str]:
    """The arms; below each its kernels, where they are other than the items."""
    yield f"  decision {branch.decision.decision}"
    for index, (arm, body) in enumerate(zip(branch.decision.arms, branch.bodies, strict=True)):
        mark = "*" if index == 0 else " "
        whole = "" if arm.whole_ns is None else f"; the whole then {arm.whole_ns:,} ns"
        yield f"  {mark} arm {index} {arm.target:16} {_ns(arm.price_ns)}  {arm.origin}{whole}"
        runs = [box for box in body.boxes if isinstance(box, RunReport)]
        if not arm.is_placement:
            for number, kernel in enumerate(kernel for run in runs for kernel in run.kernels):
                yield from _item(number, kernel, "      ")
    for body in branch.bodies:
        yield from _decisions(body)


def _ns(price: int | None) -> str:
    return "unpriced".rjust(15) if price is None else f"{price:12,} ns"


def quality(report: FunctionReport) -> str:
    """Returns a sentence about the gap between the plan and the best one."""
    return "exact" if report.exact else f"at most {report.gap:.1%} above the best"


UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "us"))


def show_ns(price: int | None) -> str:
    """A price in three digits and a unit."""
    if price is None:
        return "unpriced"
    for size, unit in UNITS:
        if price >= size:
            return f"{_three_digits(price / size)} {unit}"
    return f"{price} ns"


def show_bytes(count: int) -> str:
    """A size in three digits and a unit."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{_three_digits(count / 1024**power)} {unit}"
    return f"{count} B"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
