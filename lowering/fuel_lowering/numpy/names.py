# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names in the generated source: of values, dtypes and scalar constants."""

from __future__ import annotations

import builtins
import keyword
import re
from typing import Any

import numpy as np

from fuel_dialect import dtypes
from fuel_lowering.names import stem

NUMPY_FUNCTIONS = frozenset(
    name for name, value in vars(np).items() if callable(value) and name.isidentifier()
)
"""Read from `vars`, since asking for each name of `dir` imports numpy.f2py and numpy.testing."""
RESERVED = (
    NUMPY_FUNCTIONS
    | frozenset(dir(builtins))
    | frozenset(keyword.kwlist)
    | frozenset(d.name for d in dtypes.TABLE)
    | {"np", "ml_dtypes", "support", "pool", "scratch", "tile", "slot", "slots", "rows", "i", "n"}
)

_WORD = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\b(?!\s*=[^=])")


class Names:
    """Hands out Python names, each once."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def fresh(self, hint: str | None, default: str = "v") -> str:
        """A name like `hint` that nothing has yet."""
        first = identifier(hint, default)
        while True:
            count = self._used.get(first, 0)
            self._used[first] = count + 1
            name = f"{first}_{count}" if count or first in RESERVED else first
            if name not in RESERVED and (name == first or name not in self._used):
                self._used.setdefault(name, 1)
                return name


def identifier(hint: str | None, default: str = "v") -> str:
    """`hint` as a Python name; `default` where there is none, a prefix where it needs one."""
    return stem(hint, default)


def words(line: str) -> set[str]:
    """The names that a line of source reads or assigns (not attributes, not keywords of calls)."""
    return set(_WORD.findall(line))


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype in the source, which is fuel's."""
    return dtypes.of(dtype).name


def dtype_definition(dtype: np.dtype[Any]) -> str:
    """The line that defines it."""
    entry = dtypes.of(dtype)
    module = "np" if hasattr(np, entry.numpy_name or "") else "ml_dtypes"
    return f"{entry.name} = np.dtype({module}.{entry.numpy_name})"


def scalar_literal(value: np.ndarray[Any, Any]) -> str:
    """A rank-0 array as a Python number, the shortest that is read back as it."""
    kind = dtypes.of(value.dtype).kind
    if kind == "mask":
        return str(bool(value))
    if kind in ("signed", "unsigned"):
        return str(int(value))
    number = float(value)
    if np.isnan(number):
        return "np.nan"
    if np.isinf(number):
        return "np.inf" if number > 0 else "-np.inf"
    short = repr(float(str(value[()])))
    return short if np.array(float(short)).astype(value.dtype) == value else repr(number)


def scalar_name(value: np.ndarray[Any, Any]) -> str:
    """The name of a scalar constant: `f32_0p5`, `i32_m1`; the same for the same value only."""
    literal = scalar_literal(value).replace("np.", "").removesuffix(".0")
    text = literal.replace("-", "m").replace(".", "p").replace("+", "")
    return f"{dtype_name(value.dtype)}_{text}"


def weight_name(key: str) -> str:
    """The name of a weight, if nothing else has it."""
    return f"w_{identifier(key)}"
