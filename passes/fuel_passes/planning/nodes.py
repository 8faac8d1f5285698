# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents kernels and the values between them as frozen data without any IR."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A value that exists before the first kernel runs."""

    key: Hashable
    """The number of the value: one that several kernels read travels to each memory once."""
    device: str | None
    """The device on which it lives; None for a leaf, which lives everywhere and is free."""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """One result of a node; the key of a node alone means its result 0."""

    node: int
    result: int = 0


Input = int | Output | Source


@dataclass(frozen=True, slots=True)
class Node:
    """A kernel, or a decision of several arms: what is placed as one."""

    key: int
    inputs: tuple[Input, ...]
    """The values that it reads: results of nodes in front of it, or sources. May repeat."""
    prices: Mapping[str, int | None]
    """
    Nanoseconds on each device that serves it. None where it is served but nobody knows its price:
    such a device is used only where no other is left.
    """
    bytes: int | tuple[int, ...] = 0
    """The size of its result, or of each of them."""
    pin: str | None = None
    """The device that it must run on."""
    reuses: Input | None = None
    """The input whose memory it may reuse: the node stays where that is, if it is served there."""
