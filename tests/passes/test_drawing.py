# SPDX-License-Identifier: MIT OR Apache-2.0
"""The drawing of a plan: read as XML, with its boxes, colours, order and details; and the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from xdsl.dialects.builtin import ModuleOp

from agreement import main as program
from fuel_dialect.context import parse_module
from fuel_explain import Explanation, explain, main
from fuel_explain.colours import NOWHERE, colour_of, tint
from fuel_explain.drawing import details as lines_of
from fuel_explain.drawing import to_svg
from fuel_explain.layout import lay_out, run_width
from fuel_explain.page import to_html
from fuel_explain.reports import (
    BodyReport,
    BranchReport,
    RunReport,
    TransferReport,
    ValueReport,
)
from fuel_explain.text import show_bytes, show_ns, to_text
from fuel_passes.pipeline import OptimizePass

ROOT = Path(__file__).parents[2]
NESTED = ROOT / "examples" / "nested_branch.mlir"
SVG = "{http://www.w3.org/2000/svg}"
T = "tensor<512x512xf32>"
FORK = f"""
%0 = fuel.matmul %x, %x {{placement = #fuel.device<cpu>}} : {T}, {T} -> {T}
%1 = fuel.matmul %0, %x : {T}, {T} -> {T}
%2 = fuel.branch "try"(%a = %1 : {T}) -> {T}
arm on #fuel.target<cuda:0, "triton"> price 10000 {{
  %c = fuel.matmul %a, %a : {T}, {T} -> {T}
  fuel.yield %c : {T}
}}
arm on #fuel.target<cpu, "numpy"> price 90000 {{
  %c = fuel.neg %a : {T}
  fuel.yield %c : {T}
}}
func.return %2 : {T}"""


def explained(module: ModuleOp, topology: str = "cpu+h100") -> Explanation:
    return explain(module, OptimizePass(topology=topology))


def drawn(explanation: Explanation) -> ElementTree.Element:
    return ElementTree.fromstring(to_svg(explanation))


def found(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    """The groups of a class, in the order of the file."""
    return [g for g in root.iter(f"{SVG}g") if kind in g.get("class", "").split()]


def words(element: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in element.iter(f"{SVG}text")]


@pytest.fixture(scope="module")
def nested() -> Explanation:
    return explained(parse_module(NESTED.read_text()))


@pytest.fixture(scope="module")
def forked() -> Explanation:
    return explained(program(f"%x: {T}", T, FORK))


def test_arms_stand_side_by_side_in_their_decision(nested: Explanation):
    root = drawn(nested)
    decisions = {g.get("data-decision"): g for g in found(root, "decision")}
    assert list(decisions) == ["softmax", "softmax/1/divide", "d1"]
    inner = [g.get("data-decision") for g in found(decisions["softmax"], "decision")]
    assert inner == ["softmax", "softmax/1/divide"]
    for decision in decisions.values():
        frame, *_ = decision.findall(f"{SVG}rect")
        arms = [arm for arm in decision.findall(f"{SVG}g") if arm.get("class") == "arm"]
        places = [arm.find(f"{SVG}rect") for arm in arms]
        assert len(arms) == 2
        assert all(place is not None for place in places)
        (left, right) = (box(place) for place in places if place is not None)
        assert left[0] + left[2] < right[0], "the second is to the right of the first"
        assert (left[1], left[3]) == (right[1], right[3]), "as high and as tall"
        assert box(frame)[0] < left[0]
        assert right[0] + right[2] < box(frame)[0] + box(frame)[2]


def box(rect: ElementTree.Element) -> tuple[float, float, float, float]:
    x, y, width, height = (float(rect.get(n, "0")) for n in ("x", "y", "width", "height"))
    return x, y, width, height


def first_run(explanation: Explanation) -> RunReport:
    """The first run; a transfer to a card may come before it."""
    (function,) = explanation.functions
    return next(box for box in function.body.boxes if isinstance(box, RunReport))


def test_runs_hold_their_kernels_and_have_the_colour_of_their_device(forked: Explanation):
    root = drawn(forked)
    runs = found(root, "run")
    assert [run.get("data-target") for run in runs] == [
        "cpu/numpy",
        "cuda:0/triton",
        "cuda:0/triton",
        "cpu/numpy",
    ]
    for run in runs:
        (frame, *_) = run.findall(f"{SVG}rect")
        assert frame.get("stroke") == colour_of(run.get("data-target", ""))
        assert frame.get("fill") == tint(colour_of(run.get("data-target", "")))
    first = first_run(forked)
    (kernel,) = found(runs[0], "kernel")
    assert words(kernel) == ["matmul (pinned)", show_ns(first.kernels[0].price_ns)]
    states = [c.get("class") for c in found(kernel, "candidate")]
    assert states == ["candidate chosen", "candidate possible"]


def test_what_is_refused_is_crossed_out_and_says_why():
    body = "%0 = fuel.exp %x : tensor<2xf64>\nfunc.return %0 : tensor<2xf64>"
    explanation = explained(program("%x: tensor<2xf64>", "tensor<2xf64>", body), "cpu+vulkan")
    (kernel,) = found(drawn(explanation), "kernel")
    title = kernel.find(f"{SVG}title")
    assert title is not None
    why = r"vulkan:0/kompute.*: refused: no kernel for exp \(f64\) -> f64"
    assert re.search(why, title.text or "")
    (crossed,) = found(kernel, "refused")
    assert crossed.find(f"{SVG}rect") is None
    assert crossed.find(f"{SVG}path") is not None


def test_transfers_say_where_to_how_much_and_how_long(forked: Explanation):
    (function,) = forked.functions
    reports = [b for b in function.body.boxes if isinstance(b, TransferReport)]
    drawing = drawn(forked)
    shown = [words(g)[0] for g in found(drawing, "transfer")]
    assert [f"{r.op} → {r.to}  1 MiB" for r in reports] == [
        "copy → cuda:0  1 MiB",
        "copy → cuda:0  1 MiB",
        "copy → cpu  1 MiB",
    ]
    assert all(any(s.startswith(f"{r.op} → {r.to}  1 MiB") for s in shown) for r in reports)
    assert {g.get("data-bytes") for g in found(drawing, "transfer")} == {str(2**20)}
    unknown = [r for r in reports if r.price_ns is None]
    assert [r.to for r in unknown] == ["cpu"], "from wherever the decision leaves it"


def test_bars_are_as_long_as_kernels_are_dear(forked: Explanation):
    (function,) = forked.functions
    widths: dict[str, float] = {}
    for kernel in found(drawn(forked), "kernel"):
        _, bar = kernel.findall(f"{SVG}rect")
        widths[kernel.get("data-id", "")] = box(bar)[2]
    prices = {
        f"main:{run.id}.0": run.price_ns or 0
        for run in function.body.boxes
        if isinstance(run, RunReport)
    }
    dearest = max(prices, key=lambda name: prices[name])
    assert widths[dearest] == 72
    assert all(
        widths[name] == pytest.approx(max(72 * price / prices[dearest], 1), abs=0.06)
        for name, price in prices.items()
    )


def test_a_reader_is_below_what_it_reads_and_edges_end_at_boxes(forked: Explanation):
    (function,) = forked.functions
    layout = lay_out(function.body, 2, run_width(2))
    place = {placed.box.id: placed for placed in layout.boxes}
    for placed in layout.boxes:
        for value in placed.box.reads:
            if value.source:
                above = place[value.source]
                assert above.y + above.height < placed.y
    ends = {edge.end[1] for edge in layout.edges}
    assert ends <= {placed.y for placed in layout.boxes} | {layout.height}
    assert all(0 <= x <= layout.width for e in layout.edges for x in (e.start[0], e.end[0]))


def test_boxes_of_a_row_do_not_overlap():
    reads = (ValueReport("", "tensor<2xf32>", 8),)
    boxes = tuple(
        TransferReport(str(n), "transfer", reads, "copy", "cpu", True, 1) for n in range(40)
    )
    layout = lay_out(BodyReport(boxes, ()), 2)
    rows: dict[float, list[tuple[float, float]]] = {}
    for placed in layout.boxes:
        rows.setdefault(placed.y, []).append((placed.x, placed.x + placed.width))
    assert len(rows) > 1, "a row that is too wide is several"
    for row in rows.values():
        assert all(a[1] < b[0] for a, b in pairwise(row))
        assert max(end for _, end in row) <= layout.width


def test_the_legend_names_every_target(nested: Explanation):
    chips = found(drawn(nested), "device")
    assert [c.get("data-target") for c in chips] == list(nested.targets)
    assert [words(c) for c in chips] == [[target] for target in nested.targets]


def test_values_have_the_names_that_the_program_gives_them():
    text = f"""func.func @main(%x: {T} {{fuel.name = "pixels"}}, %w: {T}) -> (
        {T} {{fuel.name = "out"}}, {T}) {{
      %0 = fuel.add %x, %w : {T}
      %1 = fuel.neg %0 : {T}
      func.return %0, %1 : {T}, {T}
    }}"""
    (function,) = explained(parse_module(text), "cpu").functions
    assert [value.name for value in function.arguments] == ["pixels", "w"]
    assert [value.name for value in function.results] == ["out", "result1"]


def test_a_kernel_says_how_each_target_would_make_it():
    body = f"%0 = fuel.neg %x : {T}\nfunc.return %0 : {T}"
    (function,) = explained(program(f"%x: {T}", T, body), "cpu").functions
    (item,) = function.items
    measured = replace(item.candidates[1], price_ns=7, measured=True)
    item = replace(item, candidates=(item.candidates[0], measured), only_generic=True)
    first, *rest = lines_of(item)
    assert first == "only a generic source can make it"
    assert rest[0].startswith("→ cpu/numpy tiles: ")
    assert rest[1] == "   cpu/numpy library: 7 ns, measured"


def test_names_are_escaped():
    body = f"%0 = fuel.neg %x : {T}\nfunc.return %0 : {T}"
    explanation = explained(program(f"%x: {T}", T, body), "cpu")
    strange = '</title><script>alert("x")</script>&\x00'
    text = to_svg(renamed(explanation, strange))
    root = ElementTree.fromstring(text)
    assert not list(root.iter(f"{SVG}script"))
    (kernel,) = found(root, "kernel")
    title = kernel.find(f"{SVG}title")
    assert title is not None
    assert f"pointwise {strange[:-1]}\ufffd" in (title.text or "")
    page = to_html(renamed(explanation, strange))
    assert page.count("<script") == 2, "its own two"
    assert details(page)["main:0.0"]["title"] == f"pointwise {strange}"


def renamed(explanation: Explanation, name: str) -> Explanation:
    """The same with another name for its first kernel."""
    (function,) = explanation.functions
    (run, *others) = function.body.boxes
    assert isinstance(run, RunReport)
    kernels = (replace(run.kernels[0], item=name), *run.kernels[1:])
    boxes = (replace(run, kernels=kernels), *others)
    other = replace(function, body=replace(function.body, boxes=boxes))
    return replace(explanation, functions=(other,))


def details(page: str) -> dict[str, dict[str, object]]:
    match = re.search(r'<script type="application/json" id="details">(.*?)</script>', page, re.S)
    assert match is not None
    return json.loads(match[1])


def test_the_page_has_details_for_whatever_can_be_pointed_at(forked: Explanation):
    page = to_html(forked)
    said = details(page)
    ids = {g.get("data-id") for g in drawn(forked).iter(f"{SVG}g") if g.get("data-id")}
    assert ids == set(said)
    kernel = said[f"main:{first_run(forked).id}.0"]
    assert kernel["lines"] == ["pinned to cpu"]
    rows = kernel["rows"]
    assert isinstance(rows, list)
    assert {row["target"] for row in rows} == {"cpu/numpy", "cuda:0/triton"}
    assert [row["target"] for row in rows if row["state"] == "chosen"] == ["cpu/numpy"]
    assert said["main:try/1"]["title"] == "decision try, arm 1"
    assert not re.search(r'(?:src|href)="|https?://(?!www\.w3\.org/2000/svg)|@import', page)


def test_the_drawing_holds_what_the_json_holds(nested: Explanation):
    report = json.loads(nested.to_json())
    (function,) = report["functions"]
    runs, pending = [], [function["body"]]
    while pending:
        for entry in pending.pop()["boxes"]:
            if entry["form"] == "run":
                runs.append(entry)
            if entry["form"] == "decision":
                pending += entry["bodies"]
    root = drawn(nested)
    assert {f"main:{run['id']}" for run in runs} == {g.get("data-id") for g in found(root, "run")}
    kernels = [kernel for run in runs for kernel in run["kernels"]]
    assert len(kernels) == len(found(root, "kernel")) == 7
    assert all({c["target"] for c in k["candidates"]} == set(nested.targets) for k in kernels)


def test_the_whole_by_each_arm_of_a_segment():
    body = f"%0 = fuel.matmul %x, %x : {T}, {T} -> {T}\nfunc.return %0 : {T}"
    (function,) = explained(program(f"%x: {T}", T, body), "2xh100").functions
    (branch, _) = function.body.boxes
    assert isinstance(branch, BranchReport)
    first, second, *_ = branch.decision.arms
    assert first.whole_ns == function.total_ns
    assert second.whole_ns == function.total_ns - (first.price_ns or 0) + (second.price_ns or 0)
    assert "the whole then" in to_text(explained(program(f"%x: {T}", T, body), "2xh100"))


@pytest.mark.parametrize(
    ("price", "shown"),
    [(None, "unpriced"), (0, "0 ns"), (999, "999 ns"), (1_000, "1 us"), (41_234, "41.2 us")],
)
def test_prices_are_shown_in_three_digits(price: int | None, shown: str):
    assert show_ns(price) == shown


def test_sizes_and_colours():
    assert [show_bytes(n) for n in (0, 1023, 1024, 300 * 1024, 2**31)] == [
        "0 B",
        "1023 B",
        "1 KiB",
        "300 KiB",
        "2 GiB",
    ]
    assert colour_of("cuda:0/triton") == colour_of("cuda:0") != colour_of("cuda:1")
    assert colour_of("tpu:0") not in {colour_of("cpu"), NOWHERE}
    assert colour_of("") == NOWHERE
    assert tint("#000000", 0.5) == "#808080"


def test_the_command_writes_files_and_prints_nothing_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    svg, page = tmp_path / "plan.svg", tmp_path / "plan.html"
    arguments = [str(NESTED), "--topology", "cpu+h100", "--svg", str(svg), "--html", str(page)]
    assert main(arguments) == 0
    assert capsys.readouterr().out == ""
    ElementTree.parse(svg)
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert main([str(NESTED), "--svg", str(tmp_path / "none" / "plan.svg")]) == 2
    assert "plan.svg" in capsys.readouterr().err


def test_golden_picture_of_the_docs(golden, nested: Explanation):
    """`docs/plan.svg` is what the command that stands beside it draws."""
    golden(ROOT / "docs" / "plan.svg", to_svg(nested))
