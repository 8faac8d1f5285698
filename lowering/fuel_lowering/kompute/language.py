# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Writes scalar code in GLSL.

Every float is `precise`: without it a compiler may reorder and fuse. A zero comes from the host,
because compilers fold arithmetic with a known zero as if there were no NaN and no infinity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from fuel_lowering.scalars.language import Language

ZERO = "zero"
"""The name of a float that is 0.0, which no compiler knows."""

TYPES = {"bool": "bool", "i32": "int", "ui32": "uint", "f32": "float"}
"""The GLSL type of each register."""

VECTORS = {"bool": "bvec4", "i32": "ivec4", "ui32": "uvec4", "f32": "vec4"}
"""The GLSL type of four of each register."""

RESERVED = frozenset(
    "Scalars abs active all any asm atan attribute barrier bitfieldExtract bitfieldInsert "
    "bool break buffer bvec2 bvec3 bvec4 case cast ceil centroid clamp class coherent common "
    "const continue cos cosh cross default degrees discard distance do dot double else enum "
    "equal exp exp2 extern external false filter findMSB fixed flat float floatBitsToInt "
    "floatBitsToUint floor fma for fract goto greaterThan half highp if image in inline inout "
    "input int intBitsToFloat interface invariant inverse isinf isnan ivec2 ivec3 ivec4 "
    "layout left_tile length lessThan log log2 long lowp main mat2 mat3 mat4 max mediump min "
    "mix mod modf namespace noinline noise1 noperspective normalize not notEqual out "
    "outerProduct output packed partition patch pow precise precision public radians readonly "
    "reflect refract resource restrict return right_tile round roundEven sample sampler "
    "shared short sign sin sinh sizeof smooth sqrt static step struct subroutine superp "
    "switch tan tanh template this transpose true trunc typedef uaddCarry uint "
    "uintBitsToFloat umulExtended uniform union unpackHalf2x16 unsigned using uvec2 uvec3 "
    "uvec4 varying vec2 vec3 vec4 void volatile while writeonly zero".split()
)
"""The words that no variable may have: of the language, of called functions, and our own."""

KEYWORD = re.compile(
    r"""
    [biudhf]?vec[234] | [dhf]?mat[234](x[234])?
    | [iu]?(image|sampler|texture|subpassInput)
      (1D|2D|3D|Cube|2DRect|3DRect|Buffer|2DMS|MS)?(Array)?(Shadow)?
    | VULKAN | active | asm | atomic_uint | class | common | demote | enum | filter | fixed | goto
    | partition | resource | superp | template | this | typedef | union | half
    | [a-z]*(coherent|noncoherent|nonprivate)
    | \w*(EXT|NV|KHR|NVX|ARM)
    | (int|uint|float)(8|16|32|64)_t | [iuf](8|16|32|64)(vec[234]|mat[234](x[234])?)
    """,
    re.VERBOSE,
)
"""Matches the further words that GLSL keeps: of types and of extensions."""

KEPT = re.compile(r"(gl|GL|fuel|workgroup|shared)(_|$)")
"""Matches how names of GLSL begin, and those of functions and memory that shaders share."""

_DEFINITION = re.compile(r"^(?:precise )?\w+ (\w+)\(", re.MULTILINE)


@cache
def library() -> Mapping[str, str]:
    """Returns the functions of `library.glsl` by name, with the comments above them."""
    text = (files("fuel_lowering.kompute") / "library.glsl").read_text()
    found: dict[str, str] = {}
    for part in text.split("\n\n"):
        name = _DEFINITION.search(part)
        if name is not None:
            found[name[1]] = part.strip("\n")
    return found


class GlslLanguage(Language):
    """Writes GLSL 4.5 with 32-bit registers: no feature that a Vulkan device may lack."""

    PRIMITIVES = {
        "add": "{0} + {1}",
        "sub": "{0} - {1}",
        "mul": "{0} * {1}",
        "div": "{0} / {1}",
        "idiv": "{0} / {1}",
        "neg": "-({0})",
        "abs.f32": "fuel_abs({0})",
        "abs": "{0} < 0 ? -({0}) : {0}",
        "maximum.f32": "fuel_max({0}, {1})",
        "maximum": "max({0}, {1})",
        "maximum.bool": "{0} || {1}",
        "minimum.f32": "fuel_min({0}, {1})",
        "minimum": "min({0}, {1})",
        "minimum.bool": "{0} && {1}",
        "eq": "{0} == {1}",
        "ne": "{0} != {1}",
        "lt": "{0} < {1}",
        "le": "{0} <= {1}",
        "gt": "{0} > {1}",
        "ge": "{0} >= {1}",
        "and": "{0} && {1}",
        "or": "{0} || {1}",
        "not": "!{0}",
        "select": "{0} ? {1} : {2}",
        "isnan": "fuel_isnan({0})",
        "sqrt": "sqrt({0})",
        "exp": "fuel_exp({0})",
        "log": "fuel_log({0})",
        "sin": "fuel_sine({0}, 0)",
        "cos": "fuel_sine({0}, 1)",
        "tanh": "fuel_tanh({0})",
        "erf": "fuel_erf({0})",
        "pow": "fuel_pow({0}, {1})",
        "fmod": "fuel_fmod({0}, {1})",
        "floor": "floor({0})",
        "ceil": "ceil({0})",
        "rint": "roundEven({0})",
        "round_bf16": "fuel_round_bf16({0})",
        "round_f16": "fuel_round_f16({0})",
        "bits": "floatBitsToUint({0})",
        "from_bits": "uintBitsToFloat({0})",
        "shl": "{0} << {1}",
        "shr": "{0} >> {1}",
        "band": "{0} & {1}",
        "bor": "{0} | {1}",
        "to_i32": "int({0})",
        "to_ui32": "uint({0})",
        "to_f32": "float({0})",
    }

    HELPERS = library()

    def literal(self, value: np.ndarray[Any, Any], register: str) -> str:
        if register == "bool":
            return "true" if bool(value) else "false"
        if register == "ui32":
            return f"{int(value)}u"
        if register == "i32":
            return "int(0x80000000u)" if int(value) == -(2**31) else str(int(value))
        return _float(np.float32(value))

    def let(self, name: str, register: str, text: str) -> str:
        qualifier = "precise " if register == "f32" else ""
        return f"{qualifier}{TYPES[register]} {name} = {text};"


def _float(value: np.float32) -> str:
    if value == 0:
        return f"-{ZERO}" if np.signbit(value) else ZERO
    is_plain = np.isfinite(value) and abs(value) >= np.finfo(np.float32).tiny
    if not is_plain:
        bits = 0x7FC00000 if np.isnan(value) else int(value.view(np.uint32))
        return f"uintBitsToFloat(0x{bits:08x}u)"
    return repr(float(value)) if np.float32(float(str(value))) != value else _decimal(str(value))


def _decimal(text: str) -> str:
    """Returns a decimal that GLSL does not read as an integer."""
    return text if re.search(r"[.e]", text) else f"{text}.0"
