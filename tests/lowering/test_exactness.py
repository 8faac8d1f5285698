# SPDX-License-Identifier: MIT OR Apache-2.0
"""Elementwise functions and norms where formulas lose digits, on every target, against mpmath."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import pytest

import fuel_dialect as fuel
from fuel_dialect.targets.registry import description_of
from fuel_runtime import Session
from ops_on_arrays import BY_MNEMONIC

Array = np.ndarray[Any, Any]
NAMES = {"float16": "f16", "float32": "f32", "float64": "f64"}
DEVICES = [
    "cpu",
    "cuda:0",
    pytest.param("vulkan:0", marks=pytest.mark.needs_vulkan),
]
BACKENDS = {"cpu": "numpy", "cuda:0": "triton", "vulkan:0": "kompute"}
RNG = np.random.default_rng(7)


def computed(device: str, build: Callable[..., Any], *arrays: Array) -> Array:
    """Returns what a program on one device gives."""
    graph = fuel.Graph()
    inputs = [graph.input(a.shape, NAMES[a.dtype.name], name=f"x{i}") for i, a in enumerate(arrays)]
    with fuel.device(device):
        module = graph.build(build(*inputs))
    emulate = device if device == "cuda:0" else None
    devices = "cpu" if device == "cpu" else f"cpu,{device}"
    (result,) = Session(devices=devices, emulate=emulate).compile(module)(*arrays)
    return np.asarray(result)


def dtypes_of(device: str) -> Sequence[Any]:
    return (np.float32,) if device == "vulkan:0" else (np.float32, np.float64)


def gelu_tanh(x: mpmath.mpf) -> mpmath.mpf:
    inner = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x / (1 + mpmath.exp(-2 * inner))


EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": mpmath.exp,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "gelu": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "gelu_tanh": gelu_tanh,
}
RANGES = {"gelu": (-13.0, -37.0), "gelu_tanh": (-11.0, -22.0)}
"""The least argument whose result is a normal number, of f32 and of f64."""


def arguments(name: str, dtype: Any) -> Array:
    wide = dtype is np.float64
    least = RANGES.get(name, (-87.0, -700.0))[wide]
    near = [RNG.uniform(least, -least, 250), RNG.uniform(-6, 6, 150), RNG.uniform(-1, 1, 100)]
    return np.concatenate([*near, np.exp2(RNG.uniform(-30, 0, 20))]).astype(dtype)


def worst_ulps(found: Array, exact: Sequence[Any]) -> float:
    """Returns the greatest error of normal numbers in units in the last place."""
    info = np.finfo(found.dtype)
    errors = [0.0]
    for got, right in zip(map(float, found), exact, strict=True):
        if info.tiny <= abs(right) <= info.max:
            unit = np.spacing(np.abs(np.asarray(float(right), found.dtype)))
            errors.append(float(abs(mpmath.mpf(got) - right) / mpmath.mpf(float(unit))))
    return max(errors)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", EXACT)
def test_a_function_is_no_further_off_than_its_source_states(device: str, name: str):
    description = description_of(BACKENDS[device])
    assert description is not None
    for dtype in dtypes_of(device):
        x = arguments(name, dtype)
        found = computed(device, lambda t: getattr(t, name)(), x)
        with mpmath.workprec(200):
            worst = worst_ulps(found, [EXACT[name](mpmath.mpf(v)) for v in map(float, x)])
        stated = description.sources[0].ulps_of(BY_MNEMONIC[name], NAMES[np.dtype(dtype).name])
        assert worst <= stated


@pytest.mark.parametrize("device", DEVICES)
def test_the_tails_of_gated_functions_are_kept(device: str):
    for dtype in dtypes_of(device):
        x = np.array([-5, -6, -8, -np.inf, np.nan, -1e20, 1e20, -0.0, 0.0], dtype)
        found = computed(device, lambda t: t.gelu_tanh(), x)
        right = [-2.2917962e-7, -8.4396467e-11, -3.10778294e-21]
        np.testing.assert_allclose(found[:3], right, rtol=2e-5 if dtype is np.float32 else 1e-8)
        assert np.isnan(found[3:5]).all()
        assert found[5:].tolist() == [0.0, dtype(1e20), 0.0, 0.0]
        assert np.signbit(found[5:]).tolist() == [True, False, True, False]
    tail = np.array([-95.0, -100.0], np.float32)
    np.testing.assert_array_max_ulp(
        computed(device, lambda t: t.silu(), tail),
        np.array([-5.2450292e-40, -3.72007598e-42], np.float32),
        8,
    )


SPECIAL = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 0.5, -0.5, 2.0, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", ["whole", "rank-0", "column", "number"])
@pytest.mark.parametrize("exponent", [0.5, -0.5, 0.0, 1.0, 2.0, 3.0, -1.0, np.inf])
def test_a_power_is_that_of_ieee_whatever_shape_the_exponent_has(
    device: str, shape: str, exponent: float
):
    x = np.array([SPECIAL, SPECIAL], np.float32)
    right = np.array([_power(v, exponent) for v in SPECIAL], np.float32)
    powers = np.full({"whole": x.shape, "column": (2, 1)}.get(shape, ()), exponent, np.float32)
    if shape == "number":
        found = computed(device, lambda t: t**exponent, x)
    else:
        found = computed(device, lambda t, e: t**e, x, powers)
    for row in found:
        np.testing.assert_allclose(row, right, rtol=1e-5)
        numbers = ~np.isnan(right)
        assert (np.signbit(row) == np.signbit(right))[numbers].all()


def _power(x: float, exponent: float) -> float:
    """Python's pow of numbers; NaN and infinity where it raises."""
    try:
        value = x**exponent
    except ZeroDivisionError:
        is_odd = exponent % 2 == 1
        return float(np.copysign(np.inf, x)) if is_odd else np.inf
    return value if isinstance(value, float) else np.nan


@pytest.mark.parametrize("device", DEVICES)
def test_a_remainder_is_exact(device: str):
    pairs = [(898.34155, 0.65429103), (3, np.inf), (-3, np.inf), (3, -np.inf), (1e30, 3)]
    pairs += [(-0.0, 3), (3, -3), (5, 0), (np.inf, 3), (1e-40, 1e-44), (3e38, 1.2e-38), (np.nan, 1)]
    for dtype in dtypes_of(device):
        bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
        drawn = [RNG.bytes(1000 * bits.itemsize) for _ in range(2)]
        a, b = (
            np.concatenate([np.array([p[i] for p in pairs], dtype), np.frombuffer(drawn[i], dtype)])
            for i in range(2)
        )
        found = computed(device, lambda s, t: s.rem(t), a, b)
        with np.errstate(all="ignore"):
            right = np.remainder(a, b)
        np.testing.assert_array_equal(found, right)
        numbers = ~np.isnan(right)
        assert (np.signbit(found) == np.signbit(right))[numbers].all()
        folded = computed(device, lambda s: s % 0.65429103, a)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(folded, np.remainder(a, dtype(0.65429103)))


LARGE = {
    "constant": np.full((2, 1000), 1e6),
    "small differences": np.tile(1e6 + np.arange(1024) % 4, (2, 1)),
    "an outlier in front": np.concatenate([np.full((2, 1), 1e4), RNG.normal(size=(2, 999))], 1),
    "short": np.array([[1e6, 1e6 + 1, 1e6 + 2], [-1e6, -1e6, -1e6]]),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", LARGE)
def test_a_norm_of_a_row_with_a_large_mean_is_that_of_its_differences(device: str, kind: str):
    x = LARGE[kind].astype(np.float32)
    found = computed(device, lambda t: t.layer_norm_last_dim(1e-5), x)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    right = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, right, atol=2e-5, rtol=2e-5)
