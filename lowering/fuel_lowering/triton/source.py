# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Generated Triton text as a Python module, for the compiler and for the interpreter.

Triton reads the source of a function back through `linecache`; the text is there while it is
needed and leaves no file. Triton keeps its state in module attributes and class attributes, which
the interpreter replaces while it runs: `LOCK` keeps compiles and interpreted launches apart.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import linecache
import threading
from collections.abc import Iterator
from typing import Any

from fuel_dialect.errors import LoweringError
from fuel_lowering.runs.launches import DeviceKernel

LOCK = threading.RLock()

POINTEES = {
    "i1": "u8",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "ui8": "u8",
    "ui32": "u32",
    "bf16": "bf16",
    "f16": "fp16",
    "f32": "fp32",
    "f64": "fp64",
}
"""The pointee of a buffer of each dtype, by Triton's names. A mask is a byte: 0 or 1."""


def pointee(kernel: DeviceKernel, dtype: str) -> str:
    """Returns Triton's name of an element type. Raises `LoweringError` if it has no kernel."""
    if dtype not in POINTEES:
        known = ", ".join(POINTEES)
        raise LoweringError(f"kernel {kernel.name}: dtype {dtype} in Triton; it takes {known}")
    return POINTEES[dtype]


@contextlib.contextmanager
def module_of(kernel: DeviceKernel) -> Iterator[dict[str, Any]]:
    """Execute the text of a kernel; inside the block Triton can read it. Gives its names."""
    text = kernel.source
    file = f"<fuel {kernel.name} {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    lines = text.splitlines(keepends=True)
    names: dict[str, Any] = {"__name__": file, "__file__": file}
    with LOCK:
        linecache.cache[file] = (len(text), None, lines, file)
        try:
            exec(compile(text, file, "exec"), names)
            yield names
        finally:
            linecache.cache.pop(file, None)
            _forget(file)


def _forget(module: str) -> None:
    """Take the functions of a module out of a table of Triton's that would keep them for ever."""
    from triton.runtime import jit

    table: dict[str, Any] = getattr(jit, "_triton_jit_function_registry", {})
    for name in [name for name in table if name.startswith(f"{module}:")]:
        del table[name]


def entry_of(kernel: DeviceKernel, names: dict[str, Any]) -> Any:
    """The function that `kernel` names. Raises `LoweringError` where its arguments are others."""
    entry = names.get(kernel.name)
    if entry is None or not hasattr(entry, "fn"):
        raise LoweringError(
            f"kernel {kernel.name}: its source defines no such @triton.jit function"
        )
    wanted = [*(parameter.name for parameter in kernel.parameters), *kernel.scalars]
    found = [
        name for name in inspect.signature(entry.fn).parameters if name not in constants(entry)
    ]
    if found != wanted:
        raise LoweringError(
            f"kernel {kernel.name}: its source takes ({', '.join(found)}), "
            f"but is launched with ({', '.join(wanted)})"
        )
    return entry


def constants(entry: Any) -> dict[str, Any]:
    """The arguments of a kernel that have a default, which are its compile-time constants."""
    parameters = inspect.signature(entry.fn).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    }
