# SPDX-License-Identifier: MIT OR Apache-2.0
"""An explanation as one HTML page: the drawing, and beside it what the pointer is on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from typing import Any
from xml.etree.ElementTree import tostring

from fuel_explain.colours import colour_of
from fuel_explain.drawing import draw
from fuel_explain.reports import (
    BodyReport,
    BranchReport,
    Explanation,
    RunReport,
    TransferReport,
)
from fuel_explain.svg import printable
from fuel_explain.text import notes

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ margin: 0; display: flex; font: 13px/1.45 ui-sans-serif, system-ui, sans-serif;
  color: #1f2933; background: #f5f7fa }}
main {{ flex: 1; overflow: auto; height: 100vh }}
aside {{ width: 340px; height: 100vh; overflow: auto; box-sizing: border-box; padding: 18px;
  background: #ffffff; border-left: 1px solid #cbd2d9 }}
h1 {{ font-size: 15px; margin: 0 0 8px; overflow-wrap: anywhere }}
td {{ padding: 3px 8px 3px 0; vertical-align: top; overflow-wrap: anywhere }}
td.price {{ white-space: nowrap; text-align: right; font-variant-numeric: tabular-nums }}
tr.chosen td {{ font-weight: 600 }}
tr.refused td {{ color: #7b8794 }}
i {{ display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 5px }}
[data-id]:hover > rect:first-of-type {{ filter: brightness(0.96) }}
g.kernel:hover > rect:first-of-type {{ opacity: 0.6 }}
[data-id].pinned > rect:first-of-type {{ stroke: #1f2933; stroke-width: 2.5 }}
</style>
</head>
<body>
<main>{svg}</main>
<aside aria-live="polite"><h1>Plan for {topology}</h1>
<p>Point at a kernel, a run, a transfer or an arm; click to keep it here.</p></aside>
<script type="application/json" id="details">{details}</script>
<script>
{script}
</script>
</body>
</html>
"""

SCRIPT = """
const details = JSON.parse(document.getElementById("details").textContent);
const aside = document.querySelector("aside");
let kept = null;

function element(name, content, kind) {
  const made = document.createElement(name);
  made.textContent = content;
  if (kind) made.className = kind;
  return made;
}

function row(entry) {
  const made = element("tr", "", entry.state);
  const name = element("td", "");
  const chip = element("i", "");
  chip.style.background = entry.colour;
  name.append(chip, entry.target, entry.source ? " " + entry.source : "");
  const price = entry.price_ns === null ? "unpriced"
    : entry.price_ns.toLocaleString("en") + " ns";
  const said = entry.refused || price + (entry.measured ? ", measured" : "");
  made.append(name, element("td", said, entry.refused ? "" : "price"));
  return made;
}

function show(id) {
  const found = details[id];
  if (!found) return;
  const table = element("table", "");
  table.append(...found.rows.map(row));
  const lines = found.lines.map(line => element("div", line));
  aside.replaceChildren(element("h1", found.title), ...lines, table);
}

for (const target of document.querySelectorAll("[data-id]")) {
  target.addEventListener("mouseover", event => {
    event.stopPropagation();
    if (!kept) show(target.dataset.id);
  });
  target.addEventListener("click", event => {
    event.stopPropagation();
    document.querySelectorAll(".pinned").forEach(one => one.classList.remove("pinned"));
    kept = kept === target ? null : target;
    if (kept) { kept.classList.add("pinned"); show(kept.dataset.id); }
  });
}
"""


def to_html(explanation: Explanation) -> str:
    """The page; it needs nothing but itself."""
    found = {
        printable(f"{function.function}:{name}"): entry
        for function in explanation.functions
        for name, entry in _details(function.body)
    }
    topology = escape(printable(explanation.topology))
    return PAGE.format(
        title=f"fuel plan for {topology}",
        topology=topology,
        svg=tostring(draw(explanation), encoding="unicode"),
        details=json.dumps(found).replace("<", "\\u003c"),
        script=SCRIPT,
    )


def _details(body: BodyReport) -> Iterator[tuple[str, dict[str, Any]]]:
    """Returns the text of the page about each box, kernel and arm, by its id."""
    for box in body.boxes:
        if isinstance(box, RunReport):
            yield from _of_run(box)
        elif isinstance(box, TransferReport):
            why = "planned" if box.planned else "asked for by the program"
            lines = [f"{value.type}, {value.bytes:,} bytes" for value in box.reads]
            yield box.id, _entry(f"{box.op} to {box.to}", [*lines, why], [(box.to, box.price_ns)])
        else:
            yield from _of_decision(box)


def _of_run(run: RunReport) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = [f"{len(run.kernels)} kernels, {run.leaves} constants and weights"]
    yield run.id, _entry(f"run on {run.target}", lines, [(run.target, run.price_ns)])
    for index, kernel in enumerate(run.kernels):
        entry = _entry(f"{kernel.kind} {kernel.item}", notes(kernel), [])
        entry["rows"] = [
            {
                **asdict(candidate),
                "colour": colour_of(candidate.target),
                "state": "refused" if candidate.refused else "chosen" if candidate.chosen else "",
            }
            for candidate in kernel.candidates
        ]
        yield f"{run.id}.{index}", entry


def _of_decision(box: BranchReport) -> Iterator[tuple[str, dict[str, Any]]]:
    name, arms = box.decision.decision, box.decision.arms
    prices = [(arm.target, arm.price_ns) for arm in arms]
    yield box.id, _entry(f"decision {name}", [f"{len(arms)} arms"], prices)
    for index, (arm, body) in enumerate(zip(arms, box.bodies, strict=True)):
        whole = [] if arm.whole_ns is None else [f"the whole then {arm.whole_ns:,} ns"]
        title = f"decision {name}, arm {index}"
        lines = [arm.origin, *whole]
        yield f"{name}/{index}", _entry(title, lines, [(arm.target, arm.price_ns)])
        yield from _details(body)


def _entry(title: str, lines: list[str], prices: list[tuple[str, int | None]]) -> dict[str, Any]:
    rows = [
        {"target": t, "price_ns": p, "refused": "", "state": "", "colour": colour_of(t)}
        for t, p in prices
    ]
    return {"title": title, "lines": lines, "rows": rows}
