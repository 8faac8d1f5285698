# SPDX-License-Identifier: MIT OR Apache-2.0
"""An explanation as an SVG drawing: one file, without scripts and without anything from outside."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from fuel_explain.colours import colour_of, tint
from fuel_explain.layout import (
    ARM_HEADER_HEIGHT,
    CANDIDATE_WIDTH,
    HEADER_HEIGHT,
    KERNEL_HEIGHT,
    MARGIN,
    SPACE,
    BodyLayout,
    Edge,
    Placed,
    lay_out,
    run_width,
)
from fuel_explain.reports import (
    ArgumentReport,
    ArmReport,
    BranchReport,
    CandidateReport,
    Explanation,
    FunctionReport,
    ItemReport,
    RunReport,
    TransferReport,
)
from fuel_explain.svg import (
    LETTER,
    group,
    hover,
    number,
    path,
    printable,
    rectangle,
    roof,
    shortened,
    text,
)
from fuel_explain.text import notes, quality, show_bytes, show_ns

STYLE = """
text { font: 12px ui-sans-serif, system-ui, Helvetica, Arial, sans-serif; fill: #1f2933 }
.title { font-size: 20px; font-weight: 600 }
.subtitle { fill: #52606d }
.head { font-weight: 600; fill: #ffffff }
.small { font-size: 11px; fill: #52606d }
.price { font-size: 11px; fill: #52606d; text-anchor: end; font-variant-numeric: tabular-nums }
.head.price { fill: #ffffff; font-size: 12px }
.edge { fill: none; stroke-opacity: 0.75 }
.decision-frame { fill: #f5f7fa; stroke: #9aa5b1; stroke-dasharray: 5 4 }
.decision-name { font-weight: 600; fill: #3e4c59 }
"""

PAGE_MARGIN = 28
ARGUMENTS_HEIGHT = 30


def to_svg(explanation: Explanation) -> str:
    """The drawing of a plan."""
    svg = draw(explanation)
    indent(svg, " ")
    return tostring(svg, encoding="unicode") + "\n"


def draw(explanation: Explanation) -> Element:
    """The `svg` element of the drawing."""
    count = len(explanation.targets)
    layouts = [lay_out(f.body, count, run_width(count) + 2 * MARGIN) for f in explanation.functions]
    sheet = _Sheet(explanation)
    y = sheet.legend()
    width = 900.0
    for function, layout in zip(explanation.functions, layouts, strict=True):
        y = _Function(sheet, function).draw(layout, y)
        width = max(width, layout.width + 2 * PAGE_MARGIN)
    return sheet.finish(width, y + PAGE_MARGIN)


class _Sheet:
    """The `svg` element, and what all parts of a drawing need."""

    def __init__(self, explanation: Explanation):
        self.explanation = explanation
        self.svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg"})
        SubElement(self.svg, "title").text = printable(f"fuel plan for {explanation.topology}")
        SubElement(self.svg, "style").text = STYLE
        self.paper = SubElement(self.svg, "rect", {"fill": "#ffffff"})

    def finish(self, width: float, height: float) -> Element:
        size = {"width": number(width), "height": number(height)}
        self.svg.attrib.update(size, viewBox=f"0 0 {number(width)} {number(height)}")
        self.paper.attrib.update(size)
        return self.svg

    def legend(self) -> float:
        """The topology, a chip for each target, and what marks mean; gives the y below it."""
        explanation, x = self.explanation, float(PAGE_MARGIN)
        title = f"Plan for {explanation.topology}"
        text(self.svg, x, 40, title, "title")
        legend = SubElement(self.svg, "g", {"class": "legend"})
        for target in explanation.targets:
            chip = group(legend, "device", {"data-target": printable(target)})
            rectangle(chip, x, 56, 14, 14, fill=colour_of(target), rx="3")
            text(chip, x + 20, 67, target)
            x += 40 + LETTER * len(target)
        marks = (
            "bar: price of a kernel, against the dearest  ·  squares: targets in this order; full "
            "where it runs, empty where it could, crossed where it is refused"
        )
        text(self.svg, PAGE_MARGIN, 90, marks, "small")
        lines = (
            "arm 0 is taken unless a picker has a reason not to  ·  wider lines carry more bytes"
        )
        text(self.svg, PAGE_MARGIN, 106, lines, "small")
        return 122


class _Function:
    """One function on a sheet."""

    def __init__(self, sheet: _Sheet, report: FunctionReport):
        self.sheet = sheet
        self.report = report
        self.targets = sheet.explanation.targets
        self.devices: dict[str, str] = {}
        """The target that each box gives its results on."""
        self.dearest = max(_prices(report), default=0) or 1

    def draw(self, layout: BodyLayout, y: float) -> float:
        """Draw the function from a height on; gives the height below it."""
        report = self.report
        g = group(self.sheet.svg, "function", {"data-function": printable(report.function)})
        text(g, PAGE_MARGIN, y + 22, f"@{report.function}", "title")
        alone = "".join(f"  ·  all on {d}: {show_ns(t)}" for d, t in report.alone_ns.items())
        text(
            g,
            PAGE_MARGIN,
            y + 42,
            f"as planned {show_ns(report.total_ns)} (kernels {show_ns(report.kernels_ns)}, "
            f"transfers {show_ns(report.transfers_ns)}; {quality(report)}){alone}",
            "subtitle",
        )
        y += 56
        self._ends(g, report.arguments, "arguments", layout.width, y)
        y += ARGUMENTS_HEIGHT
        self.body(g, layout, PAGE_MARGIN, y)
        y += layout.height
        self._ends(g, report.results, "results", layout.width, y)
        return y + ARGUMENTS_HEIGHT + PAGE_MARGIN

    def _ends(
        self, g: Element, values: Sequence[ArgumentReport], what: str, width: float, y: float
    ) -> None:
        """The band of what comes in or goes out."""
        band = group(g, what)
        rectangle(band, PAGE_MARGIN, y, width, ARGUMENTS_HEIGHT, fill="#e4e7eb", rx="6")
        listed = [f"{v.name}: {v.type.removeprefix('tensor')} on {v.device}" for v in values]
        hover(band, what, listed or ["none"])
        text(band, PAGE_MARGIN + MARGIN, y + 20, what, "decision-name")
        shown = shortened(",  ".join(listed) or "none", width - 100 - 2 * MARGIN)
        text(band, PAGE_MARGIN + MARGIN + 90, y + 20, shown)

    def body(self, parent: Element, layout: BodyLayout, x: float, y: float) -> None:
        """The edges of a body, and its boxes over them."""
        edges = group(parent, "edges")
        for placed in layout.boxes:
            self.devices[placed.box.id] = _gives_on(placed)
        for edge in layout.edges:
            self._edge(edges, edge, x, y)
        for placed in layout.boxes:
            box = placed.box
            if isinstance(box, RunReport):
                self._run(parent, placed, box, x + placed.x, y + placed.y)
            elif isinstance(box, TransferReport):
                self._transfer(parent, placed, box, x + placed.x, y + placed.y)
            else:
                self._decision(parent, placed, box, x + placed.x, y + placed.y)

    def _edge(self, parent: Element, edge: Edge, x: float, y: float) -> None:
        (x1, y1), (x2, y2) = edge.start, edge.end
        track = None if edge.track is None else x + edge.track
        line = SubElement(
            parent,
            "path",
            {
                "class": "edge",
                "d": path(x + x1, y + y1, x + x2, y + y2, track),
                "stroke": colour_of(self.devices.get(edge.value.source, "")),
                "stroke-width": number(edge.width),
                "data-bytes": str(edge.value.bytes),
            },
        )
        hover(line, f"{edge.value.type}, {show_bytes(edge.value.bytes)}", [])

    def _run(self, parent: Element, placed: Placed, run: RunReport, x: float, y: float) -> None:
        colour = colour_of(run.target)
        g = group(
            parent, "run", {"data-id": self._id(run.id), "data-target": printable(run.target)}
        )
        rectangle(g, x, y, placed.width, placed.height, fill=tint(colour), stroke=colour, rx="7")
        head = group(g, "run-head")
        roof(head, x, y, placed.width, HEADER_HEIGHT - 4, colour)
        leaves = f", {run.leaves} constants and weights" if run.leaves else ""
        plural = "" if len(run.kernels) == 1 else "s"
        hover(head, f"run on {run.target}", [f"{len(run.kernels)} kernel{plural}{leaves}"])
        text(head, x + 10, y + 16, f"{run.target}  ·  {len(run.kernels)} kernel{plural}", "head")
        text(head, x + placed.width - 10, y + 16, show_ns(run.price_ns), "head price")
        for index, kernel in enumerate(run.kernels):
            top = y + HEADER_HEIGHT + index * KERNEL_HEIGHT
            self._kernel(g, kernel, f"{run.id}.{index}", x, top, placed.width)

    def _kernel(
        self, parent: Element, kernel: ItemReport, name: str, x: float, y: float, width: float
    ) -> None:
        g = group(parent, "kernel", {"data-id": self._id(name)})
        hover(g, f"{kernel.kind} {kernel.item}", details(kernel))
        rectangle(g, x + 1, y, width - 2, KERNEL_HEIGHT, fill="#ffffff", opacity="0")
        pinned = " (pinned)" if kernel.pin else ""
        text(g, x + 10, y + 13, shortened(kernel.item, 190 - LETTER * len(pinned)) + pinned)
        chosen = next((c.target for c in kernel.candidates if c.chosen), "")
        share = (kernel.price_ns or 0) / self.dearest
        rectangle(g, x + 210, y + 5, max(72 * share, 1), 9, fill=colour_of(chosen), rx="2")
        text(g, x + 346, y + 13, show_ns(kernel.price_ns), "price")
        left = x + 354
        for target in self.targets:
            found = [c for c in kernel.candidates if c.target == target]
            if found:
                square(g, left, y + 4, target, _best(found))
            left += CANDIDATE_WIDTH

    def _transfer(
        self, parent: Element, placed: Placed, box: TransferReport, x: float, y: float
    ) -> None:
        colour = colour_of(box.to)
        data = {"data-id": self._id(box.id), "data-target": box.to, "data-bytes": str(box.bytes)}
        g = group(parent, "transfer", data)
        why = "the plan needs it" if box.planned else "asked for by the program"
        hover(g, f"{box.op} to {box.to}", [show_bytes(box.bytes), show_ns(box.price_ns), why])
        rectangle(g, x, y, placed.width, placed.height, fill="#ffffff", stroke=colour, rx="13")
        cost = "" if box.price_ns is None else f" · {show_ns(box.price_ns)}"
        label = f"{box.op} → {box.to}  {show_bytes(box.bytes)}{cost}"
        middle = {"text-anchor": "middle"}
        text(g, x + placed.width / 2, y + 17, shortened(label, placed.width), "small", middle)

    def _decision(
        self, parent: Element, placed: Placed, box: BranchReport, x: float, y: float
    ) -> None:
        name = box.decision.decision
        g = group(
            parent, "decision", {"data-id": self._id(box.id), "data-decision": printable(name)}
        )
        rectangle(g, x, y, placed.width, placed.height, **{"class": "decision-frame", "rx": "9"})
        text(g, x + MARGIN, y + 19, f"decision {name}", "decision-name")
        most = max((arm.price_ns or 0 for arm in box.decision.arms), default=0) or 1
        left, top = x + MARGIN, y + HEADER_HEIGHT
        for index, (arm, layout) in enumerate(zip(box.decision.arms, placed.arms, strict=True)):
            data = {"data-id": self._id(f"{name}/{index}"), "data-target": printable(arm.target)}
            inner = group(g, "arm", data)
            height = placed.height - HEADER_HEIGHT - MARGIN
            self._arm(inner, arm, index, most, (left, top, layout.width, height))
            self.body(inner, layout, left, top + ARM_HEADER_HEIGHT)
            left += layout.width + SPACE

    def _arm(
        self,
        g: Element,
        arm: ArmReport,
        index: int,
        most: int,
        place: tuple[float, float, float, float],
    ) -> None:
        """The frame and the head of an arm; the line under the head is as long as it is dear."""
        x, y, width, height = place
        colour = colour_of(arm.target)
        weight = "2.5" if index == 0 else "1.2"
        rectangle(
            g, x, y, width, height, fill="#ffffff", stroke=colour, rx="7", stroke_width=weight
        )
        head = group(g, "arm-head")
        whole = [] if arm.whole_ns is None else [f"the whole then {show_ns(arm.whole_ns)}"]
        hover(head, f"arm {index} on {arm.target}", [show_ns(arm.price_ns), arm.origin, *whole])
        roof(head, x, y, width, ARM_HEADER_HEIGHT - 4, tint(colour))
        default = " (default)" if index == 0 else ""
        text(head, x + 10, y + 17, f"arm {index}{default}  ·  {arm.target}", "decision-name")
        text(head, x + width - 10, y + 17, show_ns(arm.price_ns), "price")
        note = "  ·  ".join([arm.origin, *whole])
        text(head, x + 10, y + 34, shortened(note, width - 20), "small")
        share = (arm.price_ns or 0) / most
        rectangle(head, x, y + ARM_HEADER_HEIGHT - 4, max(width * share, 1), 4, fill=colour)

    def _id(self, name: str) -> str:
        return printable(f"{self.report.function}:{name}")


def _prices(report: FunctionReport) -> list[int]:
    pending, found = [report.body], list[int]()
    while pending:
        for box in pending.pop().boxes:
            if isinstance(box, RunReport):
                found += [kernel.price_ns or 0 for kernel in box.kernels]
            if isinstance(box, BranchReport):
                pending += box.bodies
    return found


def _gives_on(placed: Placed) -> str:
    """The target or device on which a box leaves its results: unknown for a decision."""
    box = placed.box
    if isinstance(box, RunReport):
        return box.target
    return box.to if isinstance(box, TransferReport) else ""


def details(item: ItemReport) -> list[str]:
    """A line for each target that could, or could not, run an item."""
    lines = notes(item)
    for candidate in item.candidates:
        mark = "→ " if candidate.chosen else "   "
        measured = ", measured" if candidate.measured else ""
        price = f"{show_ns(candidate.price_ns)}{measured}"
        said = f"refused: {candidate.refused}" if candidate.refused else price
        lines.append(f"{mark}{candidate.target} {candidate.source}: {said}")
    return lines


def _best(candidates: Sequence[CandidateReport]) -> CandidateReport:
    """Of several ways on one target the chosen one, else one that is possible."""
    return min(candidates, key=lambda c: (not c.chosen, bool(c.refused)))


def square(parent: Element, x: float, y: float, target: str, candidate: CandidateReport) -> None:
    """Returns the relation of a target to a kernel, in words."""
    colour = colour_of(target)
    state = "refused" if candidate.refused else "chosen" if candidate.chosen else "possible"
    g = group(parent, f"candidate {state}", {"data-target": printable(target)})
    if state == "refused":
        corners = f"M{number(x + 2)} {number(y + 2)}l7 7m0 -7l-7 7"
        SubElement(g, "path", {"d": corners, "stroke": "#9aa5b1", "stroke-width": "1.4"})
        return
    fill = colour if state == "chosen" else "#ffffff"
    rectangle(g, x + 1, y + 1, 9, 9, fill=fill, stroke=colour, rx="2")
