# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random programs: what an executable gives equals the reference, on every route."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from agreement import assert_close, decisions, run
from effort import examples
from fuel_dialect.context import make_context
from fuel_lowering.numpy import tiles
from fuel_passes.pipeline import OptimizePass
from fuel_runtime import Session
from machines import sources
from programs import Array, Program, programs

CONTEXT = make_context()
SESSIONS = [(v, g) for v in ("bake", "keep") for g in ("segment", "chain")]


def expected(program: Program, route: dict[str, int]) -> tuple[Array, ...]:
    kept = {path: arm for path, arm in route.items() if path in decisions(program.module)}
    return run(program, kept)


@pytest.fixture(params=["usual", "short"])
def lone_tiles(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lets one thread go over small arrays in loops, too, as where temporaries are large."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "short":
            patch.setattr(tiles, "LONE_TILE", 3)
            patch.setattr(tiles, "MOST_TEMPORARY", 1)
        yield


@pytest.mark.usefixtures("lone_tiles")
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs(), st.sampled_from(SESSIONS), st.sampled_from([1, 2]), st.data())
def test_results_equal_the_reference_on_any_route(
    program: Program, options: tuple[str, str], threads: int, data: st.DataObject
) -> None:
    variants, granularity = options
    module = program.module.clone()
    pipeline = OptimizePass(variants=variants, granularity=granularity)  # pyright: ignore[reportArgumentType]
    pipeline.apply(CONTEXT, module)
    sizes = decisions(module)
    route = {path: data.draw(st.integers(0, arms - 1)) for path, arms in sizes.items()}
    session = Session(devices="cpu", threads=threads, force=route)
    executable = session.compile(module, weights=program.weights, optimize=False)
    want = expected(program, route)
    first = executable(*program.arguments)
    second = executable(*program.arguments)
    assert_close(first, want)
    assert_close(second, want)
    arrays = [*first, *second, *program.arguments, *program.weights.values()]
    for index, array in enumerate(arrays[: len(first) + len(second)]):
        assert not any(np.shares_memory(array, other) for other in arrays[index + 1 :])


@examples(60)
@given(programs())
def test_compiling_a_program_equals_the_reference(program: Program) -> None:
    text = str(program.module)
    executable = Session(devices="cpu").compile(program.module, weights=program.weights)
    assert_close(executable(*program.arguments), expected(program, {}))
    assert str(program.module) == text


@examples(60)
@given(programs())
def test_one_library_call_for_each_op_equals_the_reference(program: Program) -> None:
    with sources("numpy", tiles={"kinds": ("movement", "scan")}):
        executable = Session().compile(program.module, weights=program.weights)
    assert_close(executable(*program.arguments), expected(program, {}))


@pytest.mark.parametrize("order", ["C", "F"])
def test_layout_of_an_argument_does_not_matter(order: str) -> None:
    @examples(40)
    @given(programs())
    def check(program: Program) -> None:
        executable = Session(devices="cpu").compile(program.module, weights=program.weights)
        strided = [np.asarray(a, order=order)[...] for a in program.arguments]  # pyright: ignore[reportCallIssue, reportArgumentType]
        flipped = [np.flip(np.flip(a).copy(order=order)) for a in strided]  # pyright: ignore[reportArgumentType]
        assert_close(executable(*flipped), expected(program, {}))

    check()
