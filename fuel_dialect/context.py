# SPDX-License-Identifier: MIT OR Apache-2.0
"""An xDSL context with the dialects of a fuel module, and reading a module from text or a file."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import CallOp, Func
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from fuel_dialect.errors import GraphError, ProgramError
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
            _verify(module, "the module")
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


def parse_module(text: str, name: str = "<text>", context: Context | None = None) -> ModuleOp:
    """
    Parse and verify IR text: what is read of a user, all of it, comes through here.

    Raises `ProgramError`, one line with the place of the mistake, also for what makes xDSL's parser
    fail in ways of its own, and for ops in an order in which nothing can run them.
    """
    if not text.strip():
        raise ProgramError(f"{name}: there is no IR in it")
    _check_strings(text, name)
    with _readable(name):
        try:
            module = Parser(context or make_context(), text, name).parse_module()
        except ParseError as error:
            place = str(error).partition("\n")[0]
            raise ProgramError(f"{place}: {_one_line(error.msg)}") from None
        except (VerifyException, GraphError) as error:
            raise ProgramError(f"{name}: {_one_line(str(error))}") from None
        _verify(module, name)
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


@contextmanager
def _readable(name: str) -> Generator[None]:
    """What xDSL raises for IR that no program needs, as a `ProgramError`."""
    try:
        yield
    except RecursionError:
        raise ProgramError(f"{name}: it is nested too deeply to be read") from None
    except (NotImplementedError, OverflowError) as error:
        detail = _one_line(str(error)) or "it is of a kind that xDSL does not know"
        raise ProgramError(f"{name}: it cannot be read: {detail}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ProgramError(f"{path}: not UTF-8 text: {error.reason}") from None


_STRING = re.compile(r'//[^\n]*|"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+(?P<end>"?)')
"""A comment, or a string literal as xDSL reads it; `end` is empty if nothing closes it."""


def _check_strings(text: str, name: str) -> None:
    """Find a string that nothing closes: xDSL 0.75 takes time exponential in its length there."""
    for found in _STRING.finditer(text):
        if found["end"] == "":
            line = text.count("\n", 0, found.start()) + 1
            column = found.start() - text.rfind("\n", 0, found.start())
            raise ProgramError(f"{name}:{line}:{column}: nothing closes this string")


def _verify(module: ModuleOp, name: str) -> None:
    try:
        module.verify()
    except VerifyException as error:
        message = _one_line(str(error))
        raise ProgramError(f"{name}: {_culprit(module)}: {message}") from None
    _check_order(module, name)


def _check_order(module: ModuleOp, name: str) -> None:
    """
    Find a value that is read before the op that makes it, and ops that nothing can run.

    xDSL does not look at the order of ops. Regions are isolated, so order in a block is all.
    """
    seen: set[Operation] = set()
    for op in module.walk():
        if isinstance(op, CallOp):
            raise ProgramError(f"{name}: func.call is not supported; inline {op.callee}")
        for operand in op.operands:
            maker = operand.owner
            if isinstance(maker, Operation) and maker.parent is op.parent and maker not in seen:
                raise ProgramError(
                    f"{name}: {op.name} reads {describe(operand)} before it is made; in a block, "
                    "the op that makes a value comes before those that read it"
                )
        seen.add(op)


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
