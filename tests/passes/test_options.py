# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of `fuel-optimize` as flags: every one has a flag, and the flags mean the options."""

from __future__ import annotations

import argparse
import dataclasses

import pytest

from fuel_passes.options import HELP, add_flags, changed, given, kinds, why_not
from fuel_passes.pipeline import OptimizePass


def read(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    return parser.parse_args(arguments)


def test_every_option_is_in_the_table():
    assert list(HELP) == list(kinds()) == [field.name for field in dataclasses.fields(OptimizePass)]


def test_without_flags_options_have_their_defaults():
    assert OptimizePass(**given(read())) == OptimizePass()
    assert changed(read()) == []


def test_flags_are_options():
    options = read(
        *("--variants=keep", "--granularity=chain", "--topology=2xh100", "--precision=exact"),
        *("--device=cuda:1", "--deterministic", "--max-ulps=3", "--no-plugins"),
        *("--reach=2.5", "--refuge=0.5", "--place=matmul=cuda:1", "--place", "h=cpu"),
    )
    assert OptimizePass(**given(options)) == OptimizePass(
        variants="keep",
        granularity="chain",
        topology="2xh100",
        precision="exact",
        device="cuda:1",
        place=("matmul=cuda:1", "h=cpu"),
        deterministic=True,
        max_ulps=3,
        reach=2.5,
        refuge=0.5,
        plugins=False,
    )
    assert changed(read("--no-plugins", "--max-ulps", "3")) == ["--max-ulps", "--no-plugins"]


@pytest.mark.parametrize("text", ["-1", "1.5", "many", "9" * 101])
def test_a_number_that_is_none(text: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        read(f"--max-ulps={text}")
    assert "argument --max-ulps: expected a" in capsys.readouterr().err


def test_why_an_option_cannot_have_a_value():
    assert why_not("granularity", "run") == "granularity is segment or chain, not 'run'"
    assert why_not("plugins", 1) == "plugins is True or False, not 1"
    assert why_not("max_ulps", True) == "max_ulps must be a whole number >= 0, got True"
    assert [why_not("max_ulps", value) for value in (None, 0, 4)] == [None, None, None]
