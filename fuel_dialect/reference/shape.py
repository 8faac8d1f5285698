# SPDX-License-Identifier: MIT OR Apache-2.0
"""Views, reshape, contiguize and concat (`fuel_dialect.ops.shape`)."""

from __future__ import annotations

import numpy as np

from fuel_dialect.reference.precision import Array


def transpose(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def permute(x: Array, *, axes: tuple[int, ...]) -> Array:
    return np.transpose(x, axes)


def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape)


def slice(x: Array, *, dim: int, start: int, length: int) -> Array:
    return np.moveaxis(np.moveaxis(x, dim, 0)[start : start + length], 0, dim)


def unsqueeze(x: Array, *, dim: int) -> Array:
    return np.expand_dims(x, dim)


def squeeze(x: Array, *, dim: int) -> Array:
    return np.squeeze(x, dim)


def flip(x: Array, *, dim: int) -> Array:
    return np.flip(x, dim)


def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def contiguize(x: Array) -> Array:
    return np.array(x, order="C")


def concat(*arrays: Array, dim: int) -> Array:
    return np.concatenate(arrays, dim)
