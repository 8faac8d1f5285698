# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Calls glslang as a library, by the C interface of its header `glslang_c_interface.h`.

The first kernel of a process takes 0.15 s, since glslang then reads the declarations of all
built-in functions; each further one takes some milliseconds. The executable pays the 0.15 s for
every kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

COMPUTE = 5
"""The shader stage."""

GLSL = VULKAN = SPIRV = 1
"""The source language, the client and the target language."""

VULKAN_1_1 = (1 << 22) | (1 << 12)
SPIRV_1_3 = (1 << 16) | (3 << 8)
CORE_PROFILE = 1 << 1
MESSAGES = (1 << 3) | (1 << 4)
"""Errors are those of SPIR-V and of Vulkan."""


class GlslError(Exception):
    """Says what glslang says of a source that it does not compile."""


class _Input(ctypes.Structure):
    """Mirrors `glslang_input_t`."""

    _fields_ = [
        ("language", ctypes.c_int),
        ("stage", ctypes.c_int),
        ("client", ctypes.c_int),
        ("client_version", ctypes.c_int),
        ("target_language", ctypes.c_int),
        ("target_language_version", ctypes.c_int),
        ("code", ctypes.c_char_p),
        ("default_version", ctypes.c_int),
        ("default_profile", ctypes.c_int),
        ("force_default_version_and_profile", ctypes.c_int),
        ("forward_compatible", ctypes.c_int),
        ("messages", ctypes.c_int),
        ("resource", ctypes.c_void_p),
        ("callbacks", ctypes.c_void_p * 3),
        ("callbacks_context", ctypes.c_void_p),
    ]


POINTER, INT, TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p

SIGNATURES: dict[str, tuple[Any, Sequence[Any]]] = {
    "glslang_initialize_process": (INT, ()),
    "glslang_default_resource": (POINTER, ()),
    "glslang_shader_create": (POINTER, (POINTER,)),
    "glslang_shader_preprocess": (INT, (POINTER, POINTER)),
    "glslang_shader_parse": (INT, (POINTER, POINTER)),
    "glslang_shader_get_info_log": (TEXT, (POINTER,)),
    "glslang_shader_delete": (None, (POINTER,)),
    "glslang_program_create": (POINTER, ()),
    "glslang_program_add_shader": (None, (POINTER, POINTER)),
    "glslang_program_link": (INT, (POINTER, INT)),
    "glslang_program_get_info_log": (TEXT, (POINTER,)),
    "glslang_program_SPIRV_generate": (None, (POINTER, INT)),
    "glslang_program_SPIRV_get_size": (ctypes.c_size_t, (POINTER,)),
    "glslang_program_SPIRV_get_ptr": (POINTER, (POINTER,)),
    "glslang_program_delete": (None, (POINTER,)),
}
"""The result and the parameters of each function."""

FILES = ("libglslang", "libglslang-default-resource-limits", "libSPIRV")
"""The libraries that define the functions, in the order in which they need one another."""


@dataclass(frozen=True)
class Glslang:
    """Compiles shaders; any number of threads may do so at once."""

    functions: dict[str, Any]

    def compile(self, source: str) -> bytes:
        """Returns the SPIR-V 1.3 of a compute shader. Raises `GlslError`."""
        call = self.functions
        given = _Input(
            GLSL, COMPUTE, VULKAN, VULKAN_1_1, SPIRV, SPIRV_1_3, source.encode(), 100, CORE_PROFILE
        )
        given.messages = MESSAGES
        given.resource = call["glslang_default_resource"]()
        shader = call["glslang_shader_create"](ctypes.byref(given))
        program = call["glslang_program_create"]()
        try:
            for step in ("glslang_shader_preprocess", "glslang_shader_parse"):
                if not call[step](shader, ctypes.byref(given)):
                    raise GlslError(call["glslang_shader_get_info_log"](shader).decode().strip())
            call["glslang_program_add_shader"](program, shader)
            if not call["glslang_program_link"](program, MESSAGES):
                raise GlslError(call["glslang_program_get_info_log"](program).decode().strip())
            call["glslang_program_SPIRV_generate"](program, COMPUTE)
            words = call["glslang_program_SPIRV_get_size"](program)
            return ctypes.string_at(call["glslang_program_SPIRV_get_ptr"](program), 4 * words)
        finally:
            call["glslang_program_delete"](program)
            call["glslang_shader_delete"](shader)


@cache
def beside(executable: Path) -> Glslang | None:
    """Returns the library of the package that an executable is of; None if it has none."""
    found: dict[str, Any] = {}
    for name in FILES:
        try:
            path = executable.parent.parent / "lib" / f"{name}.so"
            library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError:
            return None
        for function, (result, parameters) in SIGNATURES.items():
            if hasattr(library, function):
                found[function] = getattr(library, function)
                found[function].restype, found[function].argtypes = result, parameters
    if found.keys() != SIGNATURES.keys() or not found["glslang_initialize_process"]():
        return None
    return Glslang(found)
