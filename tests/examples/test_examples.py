# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every example file: it optimises, keeps its arms, and computes what plain NumPy computes."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_weights import make, weights_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.xdsl_opt_main import xDSLOptMain

from effort import SLOW, slow_but
from fuel_dialect import dtypes
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.state import donations
from fuel_dialect.tensors import tensor_type
from fuel_passes.pipeline import OptimizePass
from fuel_runtime import Executable, Session

Array = np.ndarray[Any, np.dtype[Any]]
Weights = Mapping[str, Array]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATHS = sorted(EXAMPLES.glob("*.mlir"))
RTOL, ATOL = 1e-4, 2e-5
"""Of f32 results that a few hundred roundings made."""

LEAST_ARMS = {"nested_branch": 4}
"""Of the optimised module with all variants kept: what was written, or a large softmax."""

every_example = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def read(path: Path) -> ModuleOp:
    return parse_module(path.read_text(), path.name)


def optimised(path: Path, **options: Any) -> ModuleOp:
    module = read(path)
    OptimizePass(**options).apply(make_context(), module)
    module.verify()
    return module


def main_of(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp))


def arguments(module: ModuleOp, seed: int = 7) -> list[Array]:
    rng = np.random.default_rng(seed)
    types = [tensor_type(argument) for argument in main_of(module).args]
    state = donations(main_of(module))
    return [
        (rng.standard_normal(t.get_shape()) * (index not in state)).astype(dtypes.of_type(t).numpy)
        for index, t in enumerate(types)
    ]


def called(exe: Executable, inputs: list[Array]) -> tuple[Array, ...]:
    """All results of the function, those that are the next values of its state too."""
    signature = exe.signature
    if not signature.members:
        return exe(*inputs)
    state = exe.new_state({m.port.name: inputs[m.argument] for m in signature.members})
    results = iter(exe(*(inputs[index] for index in signature.positions), state=state))
    members = {member.result: state[member.port.name] for member in signature.members}
    count = len(signature.outputs) + len(members)
    return tuple(members[i] if i in members else next(results) for i in range(count))


def arms(
    block: Block, path: str = "", taken: Mapping[str, int] = {}
) -> Iterator[tuple[dict[str, int], Block]]:
    """Each arm below a block, with the decisions that lead to it."""
    for op in block.ops:
        if not isinstance(op, BranchOp):
            continue
        for index, region in enumerate(op.arm_regions):
            here = path + op.id.data
            route = {**taken, here: index}
            yield route, region.block
            yield from arms(region.block, f"{here}/{index}/", route)


def routes(module: ModuleOp) -> list[dict[str, int]]:
    """Forced decisions which together reach every arm; the first takes arm 0 everywhere."""
    return [{}, *(route for route, _ in arms(main_of(module).body.block))]


def arm_contents(module: ModuleOp) -> dict[str, list[str]]:
    """The ops of each arm, by the decisions that lead to it."""
    found = arms(main_of(module).body.block)
    return {str(route): [op.name for op in block.walk()] for route, block in found}


def assert_close(got: tuple[Array, ...], want: tuple[Array, ...]) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=RTOL, atol=ATOL)


def test_there_are_six_examples() -> None:
    assert [path.stem for path in PATHS] == [
        "gated_recurrent_cell",
        "kv_cache",
        "mlp",
        "nested_branch",
        "selective_scan",
        "transformer_block",
    ]


@every_example
def test_pretty_and_generic_text_agree(path: Path, tmp_path: Path) -> None:
    generic, pretty = tmp_path / "generic.mlir", tmp_path / "pretty.mlir"
    xDSLOptMain(args=[str(path), "--print-op-generic", "-o", str(generic)]).run()
    xDSLOptMain(args=[str(generic), "-o", str(pretty)]).run()
    assert pretty.read_text().strip() == str(read(path))


@every_example
@pytest.mark.parametrize("variants", ["bake", "keep"])
@pytest.mark.parametrize("granularity", ["segment", "chain"])
def test_optimising_twice_changes_nothing(path: Path, variants: str, granularity: str) -> None:
    module = optimised(path, variants=variants, granularity=granularity)
    once = str(module)
    OptimizePass(variants=variants, granularity=granularity).apply(make_context(), module)  # pyright: ignore[reportArgumentType]
    assert str(module) == once


@every_example
def test_stock_passes_keep_every_arm(path: Path, tmp_path: Path) -> None:
    kept, cleaned = tmp_path / "kept.mlir", tmp_path / "cleaned.mlir"
    pipeline = "fuel-optimize{variants=keep}"
    xDSLOptMain(args=[str(path), "-p", pipeline, "-o", str(kept)]).run()
    xDSLOptMain(
        args=[str(path), "-p", f"{pipeline},cse,canonicalize,dce", "-o", str(cleaned)]
    ).run()
    before, after = arm_contents(read(kept)), arm_contents(read(cleaned))
    assert before == after
    assert len(before) >= LEAST_ARMS.get(path.stem, 0)


@every_example
def test_every_arm_of_the_optimised_module_equals_the_program(path: Path) -> None:
    module = read(path)
    weights, inputs = weights_of(module), arguments(module)
    want = evaluate(module, *inputs, weights=weights)
    for options in ({}, {"variants": "keep"}, {"granularity": "chain"}):
        plan = optimised(path, **options)
        for route in routes(plan):
            assert_close(evaluate(plan, *inputs, weights=weights, arms=route), want)


@every_example
def test_every_arm_runs(path: Path, tmp_path: Path) -> None:
    module = read(path)
    weights, inputs = make(path, tmp_path), arguments(module)
    want = evaluate(module, *inputs, weights=weights_of(module))
    for route in routes(optimised(path, variants="keep")):
        exe = Session(devices="cpu", force=route, variants="keep").compile(path, weights=weights)
        assert_close(called(exe, inputs), want)


@every_example
def test_weights_are_the_same_each_time(path: Path, tmp_path: Path) -> None:
    first, second = make(path, tmp_path / "a"), make(path, tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


# What the programs compute, written without fuel, in f64.


def erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def mlp(w: Weights, x: Array) -> tuple[Array, ...]:
    for layer in "12":
        z = x @ w[f"mlp.{layer}.kernel"] + w[f"mlp.{layer}.bias"]
        x = z * (1 + erf(z / math.sqrt(2))) / 2
    return (softmax(x @ w["mlp.3.kernel"] + w["mlp.3.bias"]),)


def rms_norm(x: Array, gain: Array) -> Array:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6) * gain


def rotate(x: Array) -> Array:
    """Rotary embedding of [positions, width]: pairs (i, i + width / 2) as complex numbers."""
    positions, width = x.shape
    pairs = x[:, : width // 2] + 1j * x[:, width // 2 :]
    rates = 10_000.0 ** (-2 * np.arange(width // 2) / width)
    turned = pairs * np.exp(1j * np.outer(np.arange(positions), rates))
    return np.concatenate([turned.real, turned.imag], axis=1)


def transformer_block(w: Weights, x: Array) -> tuple[Array, ...]:
    normed = rms_norm(x, w["attention.gain"])
    q, k, v = (normed @ w[f"attention.{name}.kernel"] for name in ("query", "key", "value"))
    heads: list[Array] = []
    for head in range(8):
        shared = slice(head // 4 * 32, head // 4 * 32 + 32)
        scores = rotate(q[:, head * 32 : head * 32 + 32]) @ rotate(k[:, shared]).T / math.sqrt(32)
        scores[np.triu_indices(64, 1)] = -np.inf
        heads.append(softmax(scores) @ v[:, shared])
    y = x + np.concatenate(heads, axis=1) @ w["attention.out.kernel"]
    normed = rms_norm(y, w["feed_forward.gain"])
    wide = normed @ w["feed_forward.1.kernel"]
    gated = wide * sigmoid(wide) * (normed @ w["feed_forward.3.kernel"])
    return (y + gated @ w["feed_forward.2.kernel"],)


def gated_recurrent_cell(w: Weights, x: Array, h: Array) -> tuple[Array, ...]:
    states: list[Array] = []
    for step in x:
        rx, zx, nx = np.split(step @ w["gru.input.kernel"] + w["gru.input.bias"], 3, axis=1)
        rh, zh, nh = np.split(h @ w["gru.hidden.kernel"] + w["gru.hidden.bias"], 3, axis=1)
        z = sigmoid(zx + zh)
        h = (1 - z) * np.tanh(nx + sigmoid(rx + rh) * nh) + z * h
        states.append(h)
    return h, np.stack(states)


def selective_scan(w: Weights, u: Array, delta: Array, b: Array, c: Array) -> tuple[Array, ...]:
    h, rows = np.zeros((64, 16)), []
    for t in range(len(u)):
        dt = np.logaddexp(0, delta[t])[:, None]
        h = np.exp(dt * w["ssm.decay"]) * h + dt * u[t][:, None] * b[t]
        rows.append((h * c[t]).sum(axis=1) + w["ssm.skip.gain"] * u[t])
    return np.stack(rows), h


def nested_branch(w: Weights, x: Array) -> tuple[Array, ...]:
    return (softmax(4 * x) * w["out.gain"],)


def kv_cache(w: Weights, x: Array, *state: Array) -> tuple[Array, ...]:
    """The first token attends to itself alone."""
    k, v = (x @ w[f"attention.{name}.kernel"] for name in ("key", "value"))
    keys, values, count = (array.copy() for array in state)
    keys[:, 0], values[:, 0] = k.reshape(4, 16), v.reshape(4, 16)
    return v @ w["attention.out.kernel"], keys, values, count + 1


PLAIN: Mapping[str, Callable[..., tuple[Array, ...]]] = {
    "gated_recurrent_cell": gated_recurrent_cell,
    "kv_cache": kv_cache,
    "mlp": mlp,
    "nested_branch": nested_branch,
    "selective_scan": selective_scan,
    "transformer_block": transformer_block,
}


@every_example
def test_the_results_are_those_of_plain_numpy(path: Path, tmp_path: Path) -> None:
    module = read(path)
    inputs, weights = arguments(module), weights_of(module)
    wide = {name: array.astype(np.float64) for name, array in weights.items()}
    want = PLAIN[path.stem](wide, *(array.astype(np.float64) for array in inputs))
    exe = Session(devices="cpu").compile(path, weights=make(path, tmp_path))
    got = called(exe, inputs)
    for result, exact in zip(got, want, strict=True):
        np.testing.assert_allclose(result, exact, rtol=RTOL, atol=ATOL)
    for result, exact in zip(evaluate(module, *inputs, weights=weights), want, strict=True):
        np.testing.assert_allclose(result, exact, rtol=RTOL, atol=ATOL)


SCRIPTS = ["mlp.py", "gated_recurrent_cell.py", "kv_cache.py"]


@pytest.mark.parametrize("script", slow_but(SCRIPTS, ["kv_cache.py"]))
def test_the_python_example_runs(script: str) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / script)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    assert "largest difference from plain NumPy" in done.stdout


@SLOW
def test_run_all_reports_every_example() -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / "run_all.py")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(PATHS)]] == [p.stem for p in PATHS]
