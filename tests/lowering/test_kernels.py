# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels of several ops: tiles, threads, views, buffer reuse, callers at once, random programs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f64

from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import LoweringError, WeightError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops import elementwise
from fuel_dialect.tensors import tensor
from fuel_lowering.numpy import tiles
from fuel_lowering.numpy.lower import lower_run
from fuel_lowering.numpy.pool import Pool
from fuel_passes.pipeline import OptimizePass
from op_modules import module_of, tolerance
from ops_on_arrays import floats, same_bits
from programs import Program, programs
from run_ops import (
    Loaded,
    assert_close,
    check_results,
    poison,
    run_of,
    runs_of,
    strided,
)

SOURCES = Path(__file__).parent / "runs"
FILES = sorted(SOURCES.glob("*.mlir"))


def arguments_of(module: ModuleOp) -> list[Any]:
    """Arrays for `main`, of its types: index operands small, the rest ordinary numbers."""
    (run,) = runs_of(module)
    lowered = lower_run(run, "main_0")
    return [_array(type, seed) for seed, type in enumerate(lowered.inputs)]


def _array(type: Any, seed: int) -> Any:
    name, shape = str(type.element_type), tuple(type.get_shape())
    if name == "ui32":
        return np.random.default_rng(seed).integers(0, 3, shape, np.uint32)
    if name == "i1":
        return np.random.default_rng(seed).random(shape) < 0.5
    return floats(name, shape, seed)


def weights_of(lowered: Any) -> dict[str, Any]:
    uses = sorted(lowered.weights.values(), key=lambda use: use.key)
    return {use.key: _array(use.type, seed) for seed, use in enumerate(uses, 50)}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_runs_equal_the_reference_with_any_number_of_threads(path: Path, threads: int):
    module = parse_module(path.read_text())
    lowered = lower_run(runs_of(module)[0], "main_0")
    weights, arguments = weights_of(lowered), arguments_of(module)
    loaded = Loaded(lowered, Pool(threads), weights)
    allowed = max((2e-5, 1e-5), tolerance(*arguments))
    got = check_results(loaded, module, arguments, allowed, weights)
    alone = Loaded(lowered, Pool(1), weights)(*arguments)
    assert all(same_bits(a, b) for a, b in zip(got, alone, strict=True))
    again = loaded(*map(strided, arguments))
    for a, b in zip(got, again, strict=True):
        assert_close(b, a, *allowed)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_sharing_memory_changes_no_bit(path: Path):
    module = parse_module(path.read_text())
    run, arguments = runs_of(module)[0], arguments_of(module)
    shared, apart = (lower_run(run, "main_0", reuse=reuse) for reuse in (True, False))
    weights = weights_of(shared)
    a, b = Loaded(shared, weights=weights), Loaded(apart, weights=weights)
    want = b(*arguments)
    for _ in range(2):
        poison(a.scratch)
        got = a(*arguments)
        assert all(same_bits(g, w) for g, w in zip(got, want, strict=True))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_golden_source_of_a_run(path: Path, golden: Any):
    module = parse_module(path.read_text())
    source = lower_run(runs_of(module)[0], path.stem).source
    assert all(len(line) <= 100 for line in source.splitlines())
    golden(Path(__file__).parent / "golden" / f"{path.stem}.py.txt", source)


def test_two_threads_may_call_at_once():
    module = parse_module((SOURCES / "tiles.mlir").read_text())
    lowered = lower_run(runs_of(module)[0], "main_0")
    loaded = Loaded(lowered, Pool(2))
    cases = [[a + np.float32(k) for a in arguments_of(module)] for k in range(4)]
    want = [loaded(*case) for case in cases]
    failures: list[Any] = []

    def call(case: int) -> None:
        scratch = loaded.workspace()
        for _ in range(10):
            got = loaded(*cases[case], scratch=scratch)
            if not all(same_bits(g, w) for g, w in zip(got, want[case], strict=True)):
                failures.append(case)

    threads = [threading.Thread(target=call, args=(case,)) for case in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@given(programs(), st.sampled_from([(65_536, 32_768), (7, 3), (1, 1)]))
def test_optimised_random_programs_equal_the_reference(program: Program, tile: tuple[int, int]):
    """
    Every run of a random program, with its own live-ins, as the reference computes them.

    Tiles of a few elements cut small arrays along every axis.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "LARGE_TILE", tile[0])
        patch.setattr(tiles, "SMALL_TILE", tile[1])
        check_runs(program)


def check_runs(program: Program) -> None:
    optimised = program.module.clone()
    OptimizePass(variants="keep").apply(make_context(), optimised)
    for run in runs_of(optimised):
        module = _alone(run)
        lowered = lower_run(runs_of(module)[0], "main_0")
        weights = {u.key: program.weights[u.key] for u in lowered.weights.values()}
        arguments = [_array(type, seed) for seed, type in enumerate(lowered.inputs)]
        loaded = Loaded(lowered, Pool(2), weights)
        poison(loaded.scratch)
        with np.errstate(all="ignore"):
            want = evaluate(module, *arguments, weights=weights)
        for g, w in zip(loaded(*arguments), want, strict=True):
            assert_close(g, w, 1e-4, 1e-4)


def _alone(run: Any) -> ModuleOp:
    """A module whose `main` is one run."""
    from xdsl.dialects.func import FuncOp, ReturnOp
    from xdsl.ir import Block, Region

    block = Block(arg_types=[v.type for v in run.inputs])
    clone = run.clone(dict(zip(run.inputs, block.args, strict=True)))
    block.add_ops([clone, ReturnOp(*clone.results)])
    inputs, outputs = [v.type for v in run.inputs], [v.type for v in run.outputs]
    return ModuleOp([FuncOp("main", (inputs, outputs), Region(block))])


def test_a_tiny_pointwise_kernel_is_its_ufunc_calls():
    text = (SOURCES / "tiny.mlir").read_text()
    lowered = lower_run(run_of(text), "tiny")
    assert not lowered.scratch
    assert lowered.kernels == 1
    assert lowered.source.endswith(
        "    y = multiply(x, f32_2)\n    add(y, f32_1, y)\n    return (y,)\n"
    )


def test_an_unknown_op_is_an_error():
    from xdsl.dialects.test import TestPureOp
    from xdsl.rewriter import Rewriter

    type = tensor((4,), "f32")
    module = module_of(
        [type], lambda x: elementwise.AddScalarOp.make(x, scalar=FloatAttr(1.0, f64))
    )
    (op,) = (op for op in module.walk() if isinstance(op, elementwise.AddScalarOp))
    Rewriter().replace_op(op, TestPureOp(operands=op.operands, result_types=[type]))
    with pytest.raises(LoweringError, match=r"test.pureop: the numpy target has no kernel"):
        lower_run(runs_of(module)[0], "main_0")


def test_a_missing_weight_is_an_error():
    lowered = lower_run(run_of((SOURCES / "mlp.mlir").read_text()), "main_0")
    assert sorted(use.key for use in lowered.weights.values()) == ["mlp.b", "mlp.w"]
    with pytest.raises(WeightError, match=r"weight 'mlp\.[bw]' is missing"):
        Loaded(lowered)
