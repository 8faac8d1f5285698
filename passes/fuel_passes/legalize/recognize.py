# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-recognize`: what recognition patterns of other packages see in a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriteWalker,
    RewritePattern,
)

from fuel_dialect.errors import PluginError
from fuel_dialect.plugins import PATTERNS, Plugin, found
from fuel_passes.forking.plugins import Bounded, guarded
from fuel_passes.restore import all_or_nothing


@dataclass(frozen=True)
class RecognizePass(ModulePass):
    """
    Applies the recognition patterns of other packages until none matches.

    A pattern replaces a chain of ops by one op that computes the same. The patterns come from the
    entry points of group `fuel.patterns`, each a function without parameters that gives
    `RewritePattern`s; for one op, the first that matches is taken. They see every function, arm and
    scan body. Without such packages nothing happens.

    Raises `PluginError` for an entry point that is of no use, and for patterns that fail, do not
    end, or leave a module that does not verify; the module is unchanged then. No options.
    """

    name = "fuel-recognize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plugins = list(found(PATTERNS))
        if not plugins:
            return
        with all_or_nothing(op):
            for plugin in plugins:
                patterns = GreedyRewritePatternApplier(list(_patterns(plugin)))
                with guarded(plugin, op):
                    PatternRewriteWalker(Bounded(patterns, plugin, op)).rewrite_module(op)


def _patterns(plugin: Plugin) -> Iterator[RewritePattern]:
    make = plugin.load()
    if not callable(make):
        raise PluginError(f"{plugin} must be a function that gives patterns, got {make!r}")
    with guarded(plugin):
        given = cast("Callable[[], object]", make)()
    if not isinstance(given, Iterable):
        raise PluginError(f"{plugin} must give several RewritePatterns, got {given!r}")
    for pattern in cast("Iterable[object]", given):
        if not isinstance(pattern, RewritePattern):
            raise PluginError(f"{plugin} must give RewritePatterns, got {pattern!r}")
        yield pattern
