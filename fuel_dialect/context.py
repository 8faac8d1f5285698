# SPDX-License-Identifier: MIT OR Apache-2.0
"""An xDSL context with the dialects of a fuel module, and reading a module from text."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.parser import Parser


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


def parse_module(text: str, name: str = "<text>", context: Context | None = None) -> ModuleOp:
    """Parse and verify IR text. Raises xDSL's ParseError or VerifyException."""
    module = Parser(context or make_context(), text, name).parse_module()
    module.verify()
    return module
