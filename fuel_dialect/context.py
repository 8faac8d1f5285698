# SPDX-License-Identifier: MIT OR Apache-2.0
"""An xDSL context with the dialects of a fuel module, and reading a module from text or a file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyDenseElement,
    Builtin,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    RankedStructure,
)
from xdsl.dialects.func import CallOp, Func
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from fuel_dialect.errors import FuelError, GraphError, ProgramError
from fuel_dialect.tensors import describe

Program = ModuleOp | str | PathLike[str]
"""A module, IR text, or the path of a file of it; a string that is a path ends in `.mlir`."""


def make_context() -> Context:
    """
    A context with `builtin`, `func` and `fuel` loaded, and the dialects of plug-ins registered.

    Raises `PluginError` for a package that adds something to fuel and cannot be used.
    """
    from fuel_dialect import plugins
    from fuel_dialect.dialect import Fuel

    context = Context()
    for dialect in (Builtin, Func, Fuel):
        context.load_dialect(dialect)
    for name, factory in plugins.dialects():
        context.register_dialect(name, factory)
    return context


def load_program(program: Program) -> ModuleOp:
    """
    A verified module of one's own, from a module, the path of a `.mlir` file, or IR text.

    Raises `ProgramError`, one line with the place of the mistake, or `OSError`.
    """
    given = cast(object, program)
    if isinstance(given, ModuleOp):
        with _readable("the module"):
            module = given.clone()
            verify_program(module, "the module")
        return module
    if not isinstance(given, str | os.PathLike):
        raise ProgramError(
            f"a program is a module, a path or IR text, not a {type(given).__name__}; of a "
            "graph, pass graph.build(...)"
        )
    if isinstance(given, str) and ("\n" in given or not given.endswith(".mlir")):
        with _maybe_a_path(given):
            return parse_module(given)
    path = os.fspath(cast("str | PathLike[str]", given))
    return parse_module(_text(Path(path)), path)


def parse_module(
    text: str, name: str = "<text>", context: Context | None = None, *, is_trusted: bool = False
) -> ModuleOp:
    """
    Parse and verify IR text: what is read of a user, all of it, comes through here.

    IR that is trusted, which fuel itself has verified and printed, is not verified again.

    Raises `ProgramError`, one line with the place of the mistake, also for what makes xDSL's parser
    fail in ways of its own, and for ops in an order in which nothing can run them.
    """
    if not text.strip():
        raise ProgramError(f"{name}: there is no IR in it")
    _check_strings(text, name)
    with _readable(name):
        parser = ProgramParser(context or make_context(), text, name)
        try:
            module = parser.parse_module()
        except ParseError as error:
            place = str(error).partition("\n")[0]
            raise ProgramError(f"{place}: {_one_line(error.msg)}") from None
        except (VerifyException, GraphError) as error:
            raise ProgramError(f"{name}: {_one_line(str(error))}") from None
        except UNREADABLE as error:
            raise ProgramError(f"{_place(text, name, parser.pos)}: {_detail(error)}") from error
        if not is_trusted:
            verify_program(module, name)
    return module


@contextmanager
def _maybe_a_path(text: str) -> Generator[None]:
    """Say that a string was read as IR, where its one line looks more like a path."""
    try:
        yield
    except ProgramError as error:
        if "\n" in text or "{" in text:
            raise
        hint = "the string was read as IR text; one that is a path must end in .mlir"
        raise ProgramError(f"{error} ({hint})") from None


UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""xDSL's parser and verifiers raise these, besides their own errors, for IR they cannot read."""


@contextmanager
def _readable(name: str) -> Generator[None]:
    """Raise a `ProgramError` in place of what xDSL raises for IR that no program needs."""
    try:
        yield
    except FuelError:
        raise
    except RecursionError:
        raise ProgramError(f"{name}: it is nested too deeply to be read") from None
    except UNREADABLE as error:
        raise ProgramError(f"{name}: {_detail(error)}") from error


def _detail(error: Exception) -> str:
    """Describe an error of xDSL's in one line."""
    message = _one_line(" ".join(map(str, error.args)))
    if "integer string conversion" in message:
        digits = sys.get_int_max_str_digits()
        return f"it cannot be read: it holds an integer of more than {digits} digits"
    return f"it cannot be read: {message or 'it is of a kind that xDSL does not know'}"


def _place(text: str, name: str, position: int) -> str:
    """Name a place in a text as xDSL's messages do: file, line and column."""
    line = text.count("\n", 0, position) + 1
    return f"{name}:{line}:{position - text.rfind(chr(10), 0, position)}"


DENSE_LIMIT = 2**24
"""A `dense<...>` attribute has at most this many elements: xDSL makes a list of all of them."""


class ProgramParser(Parser):
    """xDSL's parser, for text that may ask for more than a machine has."""

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr:
        if type is not None:
            self._check_dense(type)
        return super().parse_dense_int_or_fp_elements_attr(type)

    def _parse_dense_literal_type(self) -> Any:
        type = super()._parse_dense_literal_type()
        self._check_dense(type)
        return type

    def _check_dense(self, type: RankedStructure[Any]) -> None:
        if prod(type.get_shape()) > DENSE_LIMIT:
            self.raise_error(
                f"a dense attribute has at most {DENSE_LIMIT} elements, {type} has more; the value "
                "of a fuel.const is a number for all elements, or #fuel.bytes"
            )


def _text(path: Path) -> str:
    content = path.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        what = error.reason
        if content.startswith(ZIP):
            what = "it is an archive, as a saved program is, which fuel-run and Session.load take"
        raise ProgramError(f"{path}: not UTF-8 text: {what}") from None


ZIP = b"PK\3\4"
"""The first bytes of an archive."""


_STRING = re.compile(
    r"""//[^\n]*|"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+(?P<end>"?)"""
    r"""|(?P<hex>\b0[xX][0-9A-Fa-f]{1024,})"""
)
"""
A comment, a string literal as xDSL reads it, or a long hexadecimal integer.

`end` is empty if nothing closes a string.
"""


def _check_strings(text: str, name: str) -> None:
    """
    Find literals that xDSL 0.75 cannot cope with.

    It takes time exponential in the length of a string that nothing closes, and reads a hexadecimal
    integer that is too long to print.
    """
    for found in _STRING.finditer(text):
        if found["hex"]:
            place = _place(text, name, found.start())
            raise ProgramError(f"{place}: an integer has at most 1023 hexadecimal digits")
        if found["end"] == "":
            place = _place(text, name, found.start())
            raise ProgramError(f"{place}: nothing closes this string")


def verify_program(module: ModuleOp, name: str) -> None:
    """Raises `ProgramError`, which begins with `name`, for IR that nothing can run."""
    try:
        module.verify()
    except VerifyException as error:
        message = _one_line(str(error))
        raise ProgramError(f"{name}: {_culprit(module)}: {message}") from None
    _check_order(module, name)


def _check_order(module: ModuleOp, name: str) -> None:
    """
    Find a value that is read where there is none, and ops that nothing can run.

    xDSL does not look at where a value is made: not at the order of ops, nor at whether the region
    of an argument or a result is one that the reader stands in.
    """
    seen: set[Operation] = set()
    for op in module.walk():
        if isinstance(op, CallOp):
            raise ProgramError(f"{name}: func.call is not supported; inline {op.callee}")
        for operand in op.operands:
            _check_operand(op, operand, seen, name)
        seen.add(op)


def _check_operand(
    op: Operation, operand: SSAValue, seen: AbstractSet[Operation], name: str
) -> None:
    """Raise `ProgramError` unless a value is made before an op, in a region around it."""
    maker, region = operand.owner, _region_of(operand)
    around: Operation | None = op
    while around is not None and around.parent_region() is not region:
        around = around.parent_op()
    if around is None:
        owner = None if region is None else region.parent_op()
        inside = "a region that is gone" if owner is None else f"a region of {owner.name}"
        raise ProgramError(
            f"{name}: {op.name} reads {_named(operand)}, which is made in {inside}: it cannot be "
            "read outside of it; yield it from there"
        )
    if isinstance(maker, Operation) and (maker not in seen or maker is around is not op):
        raise ProgramError(
            f"{name}: {op.name} reads {_named(operand)} before it is made; in a block, "
            "the op that makes a value comes before those that read it"
        )


def _region_of(value: SSAValue) -> Region | None:
    owner = value.owner
    return owner.parent if isinstance(owner, Block) else owner.parent_region()


def _named(value: SSAValue) -> str:
    """Name a value as the text of a program does, where it has a name there."""
    return describe(value) if value.name_hint is None else f"%{describe(value)}"


def _culprit(module: ModuleOp) -> str:
    """The name of the innermost op that does not verify by itself."""
    culprit = module.name
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException:
            culprit = op.name
    return culprit


def _one_line(message: str) -> str:
    return " ".join(message.split())
