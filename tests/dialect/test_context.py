# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reading programs: `load_program` and `parse_module`, through which all text of users comes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuel_dialect.context import load_program, make_context, parse_module
from fuel_dialect.errors import ProgramError

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """builtin.module {
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = fuel.exp %x : tensor<2xf32>
    func.return %0 : tensor<2xf32>
  }
}
"""


def test_a_module_a_path_and_text_are_the_same_program(tmp_path: Path):
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    module = parse_module(PROGRAM)
    for program in (PROGRAM, path, str(path), module):
        assert str(load_program(program)) == str(module)
    assert load_program(module) is not module


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'func.func @f() {{\n  fuel.weight "{"key " * 20}\n}}', "p:2:15: nothing closes this str"),
        ("module {" * 600 + "}" * 600, "p: it is nested too deeply to be read"),
        (
            "func.func @f() attributes {a = array<i640: 1>} { func.return }",
            "p:1:45: it cannot be read",
        ),
        (PROGRAM.replace("exp %x", "exp %0"), "p: fuel.exp reads a result of fuel.exp (t"),
        (PROGRAM.replace("fuel.exp", "fuel.nope"), "p:3:20: Operation fuel.nope is not registered"),
        (" \n", "p: there is no IR in it"),
    ],
)
def test_what_no_program_needs_is_one_line_with_its_place(text: str, message: str):
    with pytest.raises(ProgramError, match=re.escape(message)) as caught:
        parse_module(text, "p", make_context())
    assert "\n" not in str(caught.value)


def test_nothing_else_parses():
    layers = ("fuel_dialect", "passes", "lowering", "runtime", "examples", "benchmarks")
    files = [path for layer in layers for path in (ROOT / layer).rglob("*.py")]
    made = [path.name for path in files if re.search(r"Parser\(.*\w*context", path.read_text())]
    assert made == ["context.py"]
