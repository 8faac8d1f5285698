# SPDX-License-Identifier: MIT OR Apache-2.0
"""
JAX and torch, where installed. Nothing here is imported before a workload asks for it.

Peers get their inputs in their own arrays, converted before the clock starts, unless a name says
that NumPy arrays go in and come out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import Array, Contestant, progress

JAX = "JAX jit"
EAGER = "torch eager"
COMPILED = "torch.compile"


class Absent(Exception):
    """A peer that cannot take part, and why."""


def load(name: str) -> Any:
    """A package, or `Absent`."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Absent(f"{name} is not installed") from None


def jax_jit(program: Callable[[Any], Callable[..., Any]], inputs: Sequence[Array]) -> Contestant:
    """`program(jax)` is the function to compile; its result is awaited."""
    jax = load("jax")
    compiled = jax.jit(program(jax))
    arrays = [jax.numpy.asarray(x) for x in inputs]
    return Contestant(JAX, lambda: jax.block_until_ready(compiled(*arrays)))


def jax_jit_numpy(
    program: Callable[[Any], Callable[..., Any]], inputs: Sequence[Array]
) -> Contestant:
    """As `jax_jit`, from NumPy arrays to NumPy arrays."""
    jax = load("jax")
    compiled = jax.jit(program(jax))
    return Contestant(
        f"{JAX}, NumPy in and out", lambda: [np.asarray(r) for r in compiled(*inputs)]
    )


def torch_eager(
    program: Callable[[Any], Callable[..., Any]], inputs: Sequence[Array]
) -> Contestant:
    """`program(torch)` is the function, called without gradients."""
    torch = load("torch")
    function = program(torch)
    arrays = [torch.from_numpy(x) for x in inputs]

    def call() -> Any:
        with torch.inference_mode():
            return function(*arrays)

    return Contestant(EAGER, call, lambda result: [r.numpy() for r in result])


def torch_compiled(
    program: Callable[[Any], Callable[..., Any]], inputs: Sequence[Array]
) -> Contestant:
    """As `torch_eager`, through the inductor; compiled here, once."""
    torch = load("torch")
    function = torch.compile(program(torch))
    arrays = [torch.from_numpy(x) for x in inputs]

    def call() -> Any:
        with torch.inference_mode():
            return function(*arrays)

    try:
        call()
    except Exception as error:  # whatever the inductor or the C++ compiler it needs may raise
        reason = str(error).strip().partition("\n")[0]
        raise Absent(f"torch.compile failed: {type(error).__name__}: {reason[:120]}") from None
    return Contestant(COMPILED, call, lambda result: [r.numpy() for r in result])


@dataclass(frozen=True)
class Field:
    """The peers of one workload: those that take part, and the reasons of those that do not."""

    present: Sequence[Contestant]
    skipped: Mapping[str, str]


def gather(makers: Mapping[str, Callable[[], Contestant]]) -> Field:
    """Make every peer that can be made."""
    present: list[Contestant] = []
    skipped: dict[str, str] = {}
    for name, make in makers.items():
        try:
            present.append(make())
        except Absent as reason:
            skipped[name] = str(reason)
            progress(f"  without {name}: {reason}")
    return Field(present, skipped)


def absent(reason: str) -> Callable[[], Contestant]:
    """A maker for a peer that is left out on purpose."""

    def make() -> Contestant:
        raise Absent(reason)

    return make
