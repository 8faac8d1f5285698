# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a plan may use, and which targets serve an op."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

from agreement import main
from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.dialect import OPS
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.base import FuelOp, tensor
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.description import BACKENDS, description_of
from fuel_dialect.targets.numpy import DESCRIPTION
from fuel_passes.plan.serving import serves, sites
from fuel_passes.plan.topology import PRESETS, resolve

T = "tensor<2xf32>"
CPU = TargetAttr.of("cpu", "numpy")


def stamped(topology: str) -> ModuleOp:
    return main(f"%x: {T}", T, f"func.return %x : {T}", stamp=f"fuel.topology = {topology}")


def test_the_default_is_the_host():
    assert list(resolve(ModuleOp([])).targets) == [CPU]


def test_the_stamp_wins_over_the_default_and_the_option_over_the_stamp():
    module = stamped('#fuel.topology<"mine", [#fuel.target<cpu, "numpy">]>')
    assert resolve(module).name == "mine"
    assert resolve(module, "cpu").name == "cpu"


def test_an_unknown_preset_is_refused_with_those_that_exist():
    with pytest.raises(FuelPassError, match="topology 'gpu' is not known; the presets are cpu"):
        resolve(ModuleOp([]), "gpu")


def test_a_backend_without_a_description_is_refused():
    module = stamped('#fuel.topology<"mine", [#fuel.target<cpu, "abacus">]>')
    with pytest.raises(FuelPassError, match="no backend 'abacus' is described; there are numpy"):
        resolve(module)


def test_a_stamp_of_another_kind_is_refused():
    module = ModuleOp([], {"fuel.topology": StringAttr("cpu")})
    with pytest.raises(FuelPassError, match=r"must be a #fuel\.topology"):
        resolve(module)


def test_every_preset_has_described_targets():
    for name in PRESETS:
        for target in resolve(ModuleOp([]), name).targets:
            assert description_of(target.backend.data) is not None


@pytest.mark.parametrize("backend", BACKENDS)
def test_descriptions_are_consistent(backend: str):
    description = description_of(backend)
    assert description is not None
    assert description.name == backend
    assert set(description.dtypes) <= set(dtypes.BY_NAME)
    assert set(description.kinds) <= set(KernelOp.KINDS)
    assert description.lacks <= {op.name.removeprefix("fuel.") for op in OPS}
    assert min(description.bytes_per_ns, description.operations_per_ns) > 0
    assert min(description.flops_per_ns, description.launch_ns) > 0
    assert min(description.tile, description.threads) > 0


def test_there_is_no_description_of_an_unknown_backend():
    assert description_of("abacus") is None


def ops(body: str, arguments: str) -> list[FuelOp]:
    module = main(arguments, "()", f"{body}\nfunc.return")
    return [op for op in module.walk() if isinstance(op, FuelOp)]


def test_mixed_floats_packed_types_and_lacking_ops_are_not_served():
    (matmul, gt, packed) = ops(
        """
        %0 = fuel.matmul %a, %b : tensor<2x2xf32>, tensor<2x2xbf16> -> tensor<2x2xf32>
        %1 = fuel.gt %a, %a : tensor<2x2xf32> -> tensor<2x2xi1>
        %2 = fuel.transpose %p : tensor<2x2xf4E2M1FN> -> tensor<2x2xf4E2M1FN>""",
        "%a: tensor<2x2xf32>, %b: tensor<2x2xbf16>, %p: tensor<2x2xf4E2M1FN>",
    )
    assert not serves(matmul, DESCRIPTION)
    assert serves(matmul, replace(DESCRIPTION, mixed_floats=True))
    assert serves(gt, DESCRIPTION)
    assert not serves(gt, replace(DESCRIPTION, lacks=frozenset({"gt"})))
    assert not serves(packed, DESCRIPTION)
    assert packed.operands[0].type == tensor((2, 2), "f4E2M1FN")


def test_arms_offer_their_own_target_and_absent_devices_none():
    module = main(
        f"%x: {T}",
        T,
        f"""
        %y = fuel.branch "b"(%a = %x : {T}) -> {T}
        arm on #fuel.target<cpu, "numpy"> origin "a-pass" {{
          %0 = fuel.scan init(%s = %a : {T}) length 2 -> {T} {{
            fuel.scan_yield carry(%s : {T})
          }}
          fuel.yield %0 : {T}
        }}
        arm on #fuel.target<cuda:0, "triton"> {{
          fuel.yield %a : {T}
        }}
        func.return %y : {T}""",
    )
    found = [(site.targets, site.planned) for site in sites(module, resolve(module))]
    assert found == [((CPU,), False), ((CPU,), True), ((CPU,), True), ((), False)]
