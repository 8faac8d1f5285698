# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-explain`: candidates, refusals, the winner and totals, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agreement import main as program
from fuel_dialect.context import parse_module
from fuel_explain import explain, main
from fuel_explain.text import to_text
from fuel_passes.pipeline import OptimizePass

NESTED = Path(__file__).parents[2] / "examples" / "nested_branch.mlir"
T = "tensor<512x512xf32>"
HEAVY = f"""
%0 = fuel.matmul %x, %x : {T}, {T} -> {T}
%1 = fuel.relu %0 : {T}
%2 = fuel.matmul %1, %x : {T}, {T} -> {T}
func.return %2 : {T}"""


def test_prices_winners_and_totals_belong_together():
    found = explain(program(f"%x: {T}", T, HEAVY), OptimizePass(topology="2xh100"))
    (function,) = found.functions
    assert [(item.kind, item.item) for item in function.items] == [
        ("matmul", "matmul_relu"),
        ("matmul", "matmul"),
    ]
    won = [c for item in function.items for c in item.candidates if c.chosen]
    assert [c.target for c in won] == ["cuda:0/triton", "cuda:0/triton"]
    assert sum(c.price_ns or 0 for c in won) == function.kernels_ns
    assert function.kernels_ns + function.transfers_ns == function.total_ns
    assert function.total_ns == function.alone_ns["cuda:0"] == min(function.alone_ns.values())
    assert function.exact
    (decision,) = function.decisions
    assert decision.decision == "d0"
    assert decision.arms[0].price_ns == function.total_ns
    assert decision.arms[1].target == "cuda:1/triton"


def test_a_refusal_says_why_and_one_target_alone_is_marked():
    body = "%0 = fuel.exp %x : tensor<2xf64>\nfunc.return %0 : tensor<2xf64>"
    module = program("%x: tensor<2xf64>", "tensor<2xf64>", body)
    found = explain(module, OptimizePass(topology="cpu+vulkan"))
    (item,) = found.functions[0].items
    assert item.only_one
    (tiles, library, vulkan) = item.candidates
    assert tiles.chosen
    assert (tiles.source, library.source) == ("tiles", "library")
    assert vulkan.price_ns is None
    assert vulkan.refused == "no kernel for exp (f64) -> f64"
    assert "one target alone can run it" in to_text(found)
    assert f"refused: {vulkan.refused}" in to_text(found)


def test_kernels_in_arms_are_explained_below_their_arm():
    """Those of a segment for another device are the items, and are not said twice."""
    text = to_text(explain(parse_module(NESTED.read_text()), OptimizePass(topology="cpu+h100")))
    _, *decisions = text.split("  decision ")
    counts = [
        (words.split()[0], words.count("reduction "), words.count("cuda:0/triton "))
        for words in decisions
    ]
    assert counts == [("softmax", 2, 2), ("softmax/1/divide", 2, 2), ("d1", 0, 1)]
    assert "         0 reduction softmax_last_dim\n           * cpu/numpy " in decisions[0]


def test_the_command_prints_text_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "heavy.mlir"
    file.write_text(str(program(f"%x: {T}", T, HEAVY)))
    assert main([str(file), "--topology", "2xh100"]) == 0
    text = capsys.readouterr().out
    assert "* cuda:0/triton" in text
    assert "decision d0" in text
    assert main([str(file), "--topology", "2xh100", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["topology"] == "2xh100"
    assert f"{report['functions'][0]['total_ns']:,} ns" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topology", "moon"], "topology 'moon' is not known"),
        (["--device", "tpu"], "device tpu:0 is not in topology 'cpu'; it has cpu/numpy"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "heavy.mlir"
    file.write_text(str(program(f"%x: {T}", T, HEAVY)))
    assert main([str(file), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("junk {", "bad.mlir:1:6: Operation junk is not registered"),
        (
            'func.func @main() { %x = fuel.weight "w" : tensor<0x1152921504606846976x2xf32> }',
            "bad.mlir: ",
        ),
        ("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  func.return\n}", "bad.mlir: "),
        ("module {" * 2_000, "bad.mlir: it is nested too deeply to be read"),
        (
            f'func.func @main() {{ %x = fuel.weight "{"key " * 20}\n',
            "bad.mlir:1:38: nothing closes",
        ),
        (
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
            "  %a = fuel.exp %b : tensor<2xf32>\n  %b = fuel.neg %x : tensor<2xf32>\n"
            "  func.return %a : tensor<2xf32>\n}",
            "bad.mlir: fuel.exp reads %b (tensor<2xf32>) before it is made",
        ),
        ("", "bad.mlir: there is no IR in it"),
    ],
)
def test_a_file_that_is_no_program_is_one_line(
    text: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    Path("bad.mlir").write_text(text)
    assert main(["bad.mlir"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_missing_file_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert main(["nowhere.mlir"]) == 2
    said = "fuel-explain: error: nowhere.mlir: No such file or directory\n"
    assert capsys.readouterr().err == said
