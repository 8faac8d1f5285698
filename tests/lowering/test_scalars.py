# SPDX-License-Identifier: MIT OR Apache-2.0
"""The primitives of scalar code: each language writes each of them, and no others."""

from __future__ import annotations

import pytest

from fuel_dialect.dialect import OPS
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.traits import Elementwise
from fuel_lowering.kompute import language as kompute
from fuel_lowering.numpy import language as numpy
from fuel_lowering.scalars.language import Language
from fuel_lowering.scalars.table import DEFINITIONS
from fuel_lowering.scalars.values import PRIMITIVES, REGISTERS
from fuel_lowering.triton import language as triton

LANGUAGES = {
    "triton": (triton.LANGUAGE, triton.TYPES),
    "kompute": (kompute.GlslLanguage(), kompute.TYPES),
}


def test_every_elementwise_op_has_a_definition():
    elementwise = {op for op in OPS if issubclass(op, FuelOp) and op.has_trait(Elementwise)}
    assert elementwise == DEFINITIONS.keys()


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_language_writes_every_primitive_of_the_registers_that_it_has(name: str):
    language, types = LANGUAGES[name]
    missing = {f"to_{register}" for register in REGISTERS.values() if register not in types}
    if "f64" not in types:
        missing.add("erfc")
    written = {key.partition(".")[0] for key in language.PRIMITIVES}
    assert written == PRIMITIVES - missing


@pytest.mark.parametrize("name", LANGUAGES)
def test_what_primitives_of_one_register_are_for_is_a_register(name: str):
    language, types = LANGUAGES[name]
    named = {key.partition(".")[2] for key in language.PRIMITIVES} - {""}
    assert named <= set(types)
    assert _fills_all(language)


def _fills_all(language: Language) -> bool:
    """Returns True if every format takes its operands, by number, from the first on."""
    return all("{0}" in text for text in language.PRIMITIVES.values())


def test_numpy_computes_every_primitive_that_is_no_conversion_of_registers():
    """Arrays hold each element type; casts are NumPy's own."""
    written = {key.partition(".")[0] for key in {**numpy.UFUNCS, **numpy.FUNCTIONS}}
    conversions = {f"to_{register}" for register in REGISTERS.values()}
    methods = {"select", "round_bf16", "round_f16", "bits", "from_bits"}
    assert written == PRIMITIVES - conversions - methods


def test_no_primitive_of_numpy_has_two_calls():
    assert not numpy.UFUNCS.keys() & numpy.FUNCTIONS.keys()
