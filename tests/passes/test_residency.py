# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-insert-copies` in the pipeline: one transfer for each value that crosses."""

from __future__ import annotations

from agreement import main
from beside import (
    CHAIN,
    CLOSE,
    CONTEXT,
    FAR,
    ONE_WINS,
    T,
    chain,
    decisions,
    found,
    optimised,
    two_consumers,
)
from fuel_dialect.ops.memory import CopyOp
from fuel_passes.finishing.insert_copies import InsertCopiesPass
from machines import stamp


def test_residency_noop_when_colocated():
    module = stamp(main(f"%x: {T} {FAR}", f"({T} {FAR})", CHAIN), ONE_WINS)
    assert found(optimised(module), CopyOp) == []


def test_residency_one_copy_per_crossing_deduped():
    (copy,) = found(optimised(two_consumers()), CopyOp)
    assert isinstance(copy, CopyOp)
    assert str(copy.to) == "cuda:0"


def test_residency_idempotent_and_restamped_on_second_call():
    module = optimised(two_consumers())
    once = str(module)
    InsertCopiesPass().apply(CONTEXT, module)
    assert str(module) == once


def test_constants_are_no_device_of_their_own():
    body = f'%c = fuel.const 1.0 : f32 -> {T}\n%w = fuel.weight "w" : {T}\n'
    body += f"%0 = fuel.matmul %w, %w : {T}, {T} -> {T}\n%1 = fuel.add %0, %c : {T}\n"
    module = stamp(main("", f"({T} {FAR})", body + f"func.return %1 : {T}"), ONE_WINS)
    assert found(optimised(module), CopyOp) == []


def test_a_result_is_fetched_from_wherever_the_arm_left_it():
    module = optimised(chain(CLOSE))
    (branch,) = decisions(module)
    (use,) = branch.results[0].uses
    assert isinstance(use.operation, CopyOp)
    assert str(use.operation.to) == "cpu"
