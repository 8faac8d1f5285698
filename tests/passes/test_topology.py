# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests what a plan may use, and which targets serve an op."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, NoneAttr, StringAttr
from xdsl.parser import Parser

from agreement import main
from fuel_dialect import dtypes, kinds
from fuel_dialect.attributes import MAX_PRICE, TargetAttr, TopologyAttr
from fuel_dialect.context import make_context
from fuel_dialect.dialect import OPS
from fuel_dialect.errors import FuelPassError, TopologyChanged
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.targets import own_names
from fuel_dialect.targets.description import DtypeRates, Slowdown
from fuel_dialect.targets.machine import Device, Link
from fuel_dialect.targets.numpy import DESCRIPTION
from fuel_dialect.targets.presets import PRESETS
from fuel_dialect.targets.registry import description_of
from fuel_dialect.tensors import tensor
from fuel_dialect.traits import Exact, is_marked
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning import topology_json, topology_schema
from fuel_passes.planning.serving import serves, sites
from fuel_passes.planning.topology import (
    PLAN,
    attribute_of,
    check_plan,
    generation,
    path,
    preset,
    resolve,
    stamp_plan,
    target_description,
    topology_of,
    transfer_ns,
    validated,
)
from fuel_passes.planning.topology_schema import LEAST_RATE, MOST_RATE
from machines import only

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


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_can_be_written_without_a_plus(name: str):
    assert preset(name.replace("+", "-")) is PRESETS[name]


def test_a_backend_without_a_description_is_refused():
    module = stamped('#fuel.topology<"mine", [#fuel.target<cpu, "abacus">]>')
    with pytest.raises(FuelPassError, match="no backend 'abacus' is described; there are"):
        resolve(module)


def test_a_stamp_of_another_kind_is_refused():
    module = ModuleOp([], {"fuel.topology": StringAttr("cpu")})
    with pytest.raises(FuelPassError, match=r"must be a #fuel\.topology"):
        resolve(module)


def test_every_preset_has_described_targets():
    for name in PRESETS:
        for target in resolve(ModuleOp([]), name).targets:
            assert description_of(target.backend.data) is not None


@pytest.mark.parametrize("backend", own_names())
def test_descriptions_are_consistent(backend: str):
    description = description_of(backend)
    assert description is not None
    assert description.name == backend
    assert set(description.dtypes) <= set(dtypes.BY_NAME)
    assert set(description.kinds) <= set(kinds.names())
    assert not description.lacks
    assert {name for name, _ in description.by_dtype} <= set(description.dtypes)
    for source in description.sources:
        ops = [op for op in OPS if issubclass(op, FuelOp)]
        assert all((source.ulps_of(op, "f32") == 0) == is_marked(op, Exact) for op in ops)
        assert 0 < source.rate <= 1
        assert set(source.dtypes or ()) <= set(description.dtypes)
        assert not source.lacks
        assert not any(kind in ("scan", "movement") for kind in source.kinds if source.generic)
    assert min(description.bytes_per_ns, description.operations_per_ns) > 0
    assert min(description.flops_per_ns, description.launch_ns) > 0
    assert min(description.tile, description.threads) > 0


def test_there_is_no_description_of_an_unknown_backend():
    assert description_of("abacus") is None


def test_presets_are_what_their_names_say():
    devices = {name: [d.name for d in topology.devices] for name, topology in PRESETS.items()}
    cuda = ["cpu", "cuda:0"]
    assert devices == {
        "cpu": ["cpu"],
        "cpu+vulkan": ["cpu", "vulkan:0"],
        "cpu+a100": cuda,
        "cpu+h100": cuda,
        "cpu+h200": cuda,
        "cpu+rtx4090": cuda,
        "2xh100": [*cuda, "cuda:1"],
    }
    assert all(validated(topology) is topology for topology in PRESETS.values())
    assert all(topology.targets[0] == CPU for topology in PRESETS.values())
    generations = {generation(topology) for topology in PRESETS.values()}
    assert len(generations) == len(PRESETS)
    assert all(len(g) == 16 and int(g, 16) >= 0 for g in generations)


@pytest.mark.parametrize("name", PRESETS)
def test_a_topology_survives_json_and_an_attribute(name: str, tmp_path: Path):
    topology = PRESETS[name]
    assert topology_of(attribute_of(topology)) is topology
    assert attribute_of(topology).description == NoneAttr()
    mine = replace(topology, name="mine")
    file = tmp_path / "mine.json"
    file.write_text(topology_json.dump(mine))
    assert resolve(ModuleOp([]), str(file)) == mine
    attribute = attribute_of(mine)
    parsed = Parser(make_context(), str(attribute)).parse_attribute()
    assert parsed == attribute
    assert isinstance(parsed, TopologyAttr)
    assert topology_of(parsed) == mine
    assert generation(topology_of(parsed)) == generation(mine) != generation(topology)


def test_a_described_machine_is_read_from_the_module():
    module = stamped(
        """#fuel.topology<"mine", [#fuel.target<cpu, "numpy">, #fuel.target<cuda:0, "triton">], {
            devices = [{name = "cpu"}, {name = "cuda:0", memory_bytes = 1000, storage = "cuda:0"}],
            links = [{source = "cpu", target = "cuda:0", latency_ns = 7, bytes_per_ns = 2.0},
                     {source = "cuda:0", target = "cpu", latency_ns = 9, bytes_per_ns = 4}]}>"""
    )
    topology = resolve(module)
    assert topology.devices == (Device("cpu"), Device("cuda:0", 1_000))
    assert transfer_ns(topology, "cpu", "cuda:0", 10) == 12
    assert transfer_ns(topology, "cuda:0", "cpu", 10) == 12
    text = str(module)
    assert str(Parser(make_context(), text).parse_module()) == text


def test_a_machine_of_which_only_targets_are_known_has_each_in_a_slot():
    module = stamped('#fuel.topology<"mine", [#fuel.target<vulkan:0, "kompute">]>')
    topology = resolve(module)
    assert [d.name for d in topology.devices] == ["cpu", "vulkan:0"]
    assert transfer_ns(topology, "cpu", "vulkan:0", 25_000) == 11_000
    elsewhere = stamped('#fuel.topology<"cpu", [#fuel.target<vulkan:0, "kompute">]>')
    assert resolve(elsewhere) == replace(topology, name="cpu")


def sample() -> dict[str, Any]:
    """A machine with two devices beside the host, one of them without a link to the other."""
    links = [
        {"source": a, "target": b, "latency_ns": 10, "bytes_per_ns": 2}
        for name in ("cuda:0", "vulkan:0")
        for a, b in (("cpu", name), (name, "cpu"))
    ]
    rates = {"bytes_per_ns": 3, "operations_per_ns": 4, "flops_per_ns": 5, "launch_ns": 6}
    return {
        "name": "sample",
        "devices": [{"name": "cpu"}, {"name": "cuda:0"}, {"name": "vulkan:0"}],
        "targets": ["cpu/numpy", "cuda:0/triton", "vulkan:0/kompute"],
        "links": links,
        "rates": {"cuda:0/triton": {**rates, "dtypes": {"bf16": {"flops_per_ns": 50}}}},
    }


def test_values_go_directly_or_through_the_host():
    topology = topology_schema.from_json(sample(), "sample")
    assert path(topology, "cpu", "cpu") == ("cpu",)
    assert path(topology, "cpu", "cuda:0") == ("cpu", "cuda:0")
    assert path(topology, "cuda:0", "vulkan:0") == ("cuda:0", "cpu", "vulkan:0")
    assert transfer_ns(topology, "cuda:0", "cuda:0", 10**9) == 0
    assert transfer_ns(topology, "cpu", "cuda:0", 101) == 10 + 51
    assert transfer_ns(topology, "cuda:0", "vulkan:0", 101) == 2 * (10 + 51)
    assert transfer_ns(topology, "cpu", "cuda:0", 2**200) == MAX_PRICE
    direct = replace(topology, links=(*topology.links, Link("cuda:0", "vulkan:0", 1, 1)))
    assert path(direct, "cuda:0", "vulkan:0") == ("cuda:0", "vulkan:0")
    assert path(direct, "vulkan:0", "cuda:0") == ("vulkan:0", "cpu", "cuda:0")


def test_shared_storage_is_free_and_lends_its_links():
    given = sample()
    given["devices"][0]["storage"] = given["devices"][2]["storage"] = "ram"
    topology = topology_schema.from_json(given, "sample")
    assert transfer_ns(topology, "cpu", "vulkan:0", 10**9) == 0
    assert path(topology, "cpu", "vulkan:0") == ("cpu", "vulkan:0")
    assert path(topology, "cuda:0", "vulkan:0") == ("cuda:0", "vulkan:0")
    assert transfer_ns(topology, "cuda:0", "vulkan:0", 100) == 60


def test_rates_of_a_machine_replace_those_of_the_target():
    topology = topology_schema.from_json(sample(), "sample")
    (_, cuda, vulkan) = topology.targets
    described = target_description(topology, cuda)
    assert (described.bytes_per_ns, described.launch_ns) == (3, 6)
    assert described.slowdown(dtypes.BY_NAME["bf16"].type) == (1, 1, 0.1)
    assert described.slowdown(dtypes.BY_NAME["f32"].type) == (1, 1, 1)
    assert target_description(topology, vulkan) is description_of("kompute")
    with pytest.raises(FuelPassError, match="no backend 'abacus' is described"):
        target_description(topology, TargetAttr.of("cpu", "abacus"))


def changed(**fields: object) -> dict[str, Any]:
    return {**sample(), **fields}


def without(given: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != name}


LINK = sample()["links"][0]
RATES = sample()["rates"]["cuda:0/triton"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            [],
            r"f\.json: expected `object`, got \[\]; it needs name, devices, targets, links",
        ),
        (
            without(sample(), "links"),
            "f.json: object missing required field `links`; it needs name, devices, targets",
        ),
        (
            changed(colour=1),
            "f.json: object contains unknown field `colour`; it needs name, devices",
        ),
        (changed(name=""), "f.json.name: expected `str` of length >= 1, got ''"),
        (changed(devices={}), "f.json.devices: expected `array`, got {}"),
        (changed(devices=[{}]), r"f\.json\.devices\[0\]: object missing required field `name`"),
        (changed(devices=[{"name": "GPU 1"}]), r"devices\[0\]: 'GPU 1' does not name a device"),
        (changed(devices=[{"name": "cuda"}]), "write cuda:0 for the device 'cuda'"),
        (
            changed(devices=[{"name": "cpu", "memory_bytes": -1}]),
            "memory_bytes: expected `int` >= 1, got -1",
        ),
        (changed(devices=[{"name": "cpu"}] * 2), "device cpu is listed twice"),
        (changed(targets=["cpu"]), r"targets\[0\] must be device/backend, .* got 'cpu'"),
        (changed(targets=[7]), r"targets\[0\]: expected `str`, got 7"),
        (changed(targets=["cpu/numpy"] * 2, rates={}), "target cpu/numpy is listed twice"),
        (
            changed(devices=[{"name": "cpu", "memory_bytes": 0}]),
            "memory_bytes: expected `int` >= 1, got 0",
        ),
        (
            changed(devices=[*sample()["devices"][:2], {"name": "vulkan:0", "storage": "cpuu"}]),
            "vulkan:0 shares the storage of cpuu, which is no device of it; memory of their own "
            "have cpu, cuda:0",
        ),
        (
            changed(
                devices=[
                    {"name": "cpu"},
                    {"name": "cuda:0", "storage": "cpu"},
                    {"name": "vulkan:0", "storage": "cuda:0"},
                ]
            ),
            "vulkan:0 shares the storage of cuda:0, which itself shares that of cpu",
        ),
        (
            changed(targets=["cpu/triton"], rates={}),
            "the backend 'triton' cannot run on the device cpu; it runs on cuda; what runs on cpu "
            "is numpy$",
        ),
        (
            changed(targets=["cuda:0/numpy"], rates={}),
            "the backend 'numpy' cannot run on the device cuda:0; it runs on cpu; what runs on "
            "cuda is triton$",
        ),
        (
            changed(
                devices=[{"name": "cpu"}, {"name": "npu:3"}],
                targets=["npu:3/kompute"],
                links=[],
                rates={},
            ),
            "cannot run on the device npu:3; it runs on vulkan; what runs on npu is no backend$",
        ),
        (changed(targets=["moon:0/numpy"], rates={}), "target moon:0/numpy is on a device"),
        (changed(targets=["cpu/abacus"], rates={}), "no backend 'abacus' is described"),
        (changed(targets=[], rates={}), "has no target; a plan needs at least one"),
        (
            changed(devices=[{"name": "cuda:0"}], targets=["cuda:0/triton"], links=[]),
            "lacks the host, cpu, where arguments and results live; it has cuda:0",
        ),
        (
            changed(links=[{**LINK, "latency_ns": 1.5}]),
            r"links\[0\]\.latency_ns: expected `int`, got 1\.5",
        ),
        (
            changed(links=[{**LINK, "bytes_per_ns": 0}]),
            "bytes_per_ns: expected `float` >= 1e-100, got 0",
        ),
        (changed(links=[{**LINK, "source": "moon:0"}]), "ends at moon:0, which is no device of it"),
        (changed(links=[LINK, LINK]), "the link cpu to cuda:0 is listed twice"),
        (changed(links=[{**LINK, "target": "cpu"}]), "the link cpu to cpu joins a device to"),
        (changed(links=[LINK]), "has no way from cpu to vulkan:0: neither a direct link nor links"),
        (
            changed(rates={"cuda:0/triton": without(RATES, "launch_ns")}),
            r"rates\['cuda:0/triton'\]: object missing required field `launch_ns`; it needs b",
        ),
        (
            changed(rates={"cpu/numpy": RATES, "cuda:0/triton": {**RATES, "strides": {"s": "x"}}}),
            r"rates\['cuda:0/triton'\]\.strides\['s'\]: invalid enum value 'x'; it is one of "
            "any, contiguous, matrices",
        ),
        (
            changed(rates={"cuda:0/triton": {**RATES, "strides": {"s": "any"}}}),
            r"rates\['cuda:0/triton'\]\.strides: 's' is no kind of kernel; there are ",
        ),
        (changed(devices=[{"name": "cpu", "memory_bytes": None}]), "`int`, got None"),
        (changed(rates={"cuda:1/triton": RATES}), "rates are given for cuda:1/triton, which is no"),
        (changed(rates=[]), "rates: expected `object`, got \\[\\]"),
        (
            changed(rates={"cuda:0/triton": {**RATES, "dtypes": {"f33": {}}}}),
            r"\['cuda:0/triton'\]\.dtypes: 'f33' is no dtype; there are i1, ",
        ),
        (
            changed(rates={"cuda:0/triton": {**RATES, "dtypes": {"f64": {}}}}),
            r"dtypes\['f64'\] says nothing of f64; leave it out",
        ),
        (
            changed(rates={"cuda:0/triton": {**RATES, "dtypes": {"f64": {"launch_ns": 3}}}}),
            r"dtypes\['f64'\]: object contains unknown field `launch_ns`; it needs none",
        ),
        (
            changed(rates={"cuda:0/triton": {**RATES, "dtypes": {"f64": {"bytes_per_ns": 0}}}}),
            r"cuda:0/triton'\]\.dtypes\['f64'\]\.bytes_per_ns: expected `float` >= 1e-100, got 0",
        ),
        (
            changed(rates={"vulkan:0/kompute": {**RATES, "dtypes": {"f64": {"flops_per_ns": 1}}}}),
            "rates of vulkan:0/kompute for f64, of which it has no kernels; it serves i1, i8",
        ),
        (
            changed(rates={"cuda:0/triton": {**RATES, "flops_per_ns": True}}),
            "flops_per_ns: expected `float`, got True",
        ),
        (
            changed(links=[{**LINK, "bytes_per_ns": 5e-324}]),
            r"links\[0\]\.bytes_per_ns: expected `float` >= 1e-100, got 5e-324",
        ),
        *(
            (
                changed(rates={"cuda:0/triton": {**RATES, rate: beyond}}),
                f"{rate}: expected `float` (>= 1e-100|<= 1e.100), got",
            )
            for rate in ("bytes_per_ns", "operations_per_ns", "flops_per_ns")
            for beyond in (5e-324, 9e-101, 2e100)
        ),
        *(
            (
                changed(rates={"cuda:0/triton": {**RATES, "flops_per_ns": beyond}}),
                f"{name} is no number of JSON",
            )
            for name, beyond in (("Infinity", float("inf")), ("NaN", float("nan")))
        ),
        (
            changed(rates={"cuda:0/triton": {**RATES, "threads": 0}}),
            "threads: expected `int` >= 1, got 0",
        ),
    ],
)
def test_a_bad_file_is_refused_with_the_place_and_the_cure(
    given: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("f.json").write_text(json.dumps(given))
    with pytest.raises(FuelPassError, match=message):
        resolve(ModuleOp([]), "f.json")


def test_a_file_that_is_no_json_or_is_not_there_is_refused(tmp_path: Path):
    (tmp_path / "f.json").write_text("{")
    with pytest.raises(FuelPassError, match=r"f\.json is not JSON: "):
        resolve(ModuleOp([]), str(tmp_path / "f.json"))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(FuelPassError, match=r"deep\.json is nested too deeply to be read"):
        resolve(ModuleOp([]), str(tmp_path / "deep.json"))
    with pytest.raises(FuelPassError, match=r"g\.json cannot be read: "):
        resolve(ModuleOp([]), str(tmp_path / "g.json"))
    module = stamped('#fuel.topology<"m", [#fuel.target<cpu, "numpy">], {devices = [unit]}>')
    with pytest.raises(FuelPassError, match="holds dictionaries, lists, texts and numbers"):
        resolve(module)


def test_the_schema_names_every_field_that_is_written():
    topology = topology_schema.from_json(sample(), "sample")
    rates = replace(
        topology.rates[0],
        by_dtype=(("bf16", DtypeRates(1.0, 2.0, 3.0)),),
        threads=3,
        strides=(("scan", "contiguous"),),
    )
    topology = replace(topology, rates=(rates,))
    written = topology_json.to_json(topology)
    assert topology_schema.from_json(written, "written") == topology
    kinds_of_object = topology_schema.schema()["$defs"]

    def fields(name: str) -> set[str]:
        return set(kinds_of_object[f"{name}Fields"]["properties"])

    assert set(written) == fields("Topology")
    assert set(written["links"][0]) == fields("Link")
    (rates,) = written["rates"].values()
    assert set(rates) == fields("Rates")
    (own,) = rates["dtypes"].values()
    assert set(own) == fields("Dtype")


def test_rates_without_element_types_are_in_proportion_to_those_that_are_typical():
    plain = sample()["rates"]["cuda:0/triton"]
    typical = description_of("triton")
    assert typical is not None
    doubles = dtypes.BY_NAME["f64"].type
    for rates, expected in (
        (without(plain, "dtypes"), pytest.approx(typical.slowdown(doubles))),
        ({**plain, "dtypes": {}}, (1, 1, 1)),
        ({**plain, "dtypes": {"f64": {"operations_per_ns": 1}}}, (1, 4, 1)),
    ):
        topology = topology_schema.from_json(changed(rates={"cuda:0/triton": rates}), "sample")
        described = target_description(topology, topology.targets[1])
        assert described.slowdown(doubles) == expected
        written = topology_json.to_json(topology)
        assert topology_schema.from_json(written, "written") == topology
        attribute = attribute_of(topology)
        assert topology_of(attribute) == topology
        assert described.at(0.5).slowdown(doubles) == pytest.approx(
            tuple(described.slowdown(doubles))
        )


def test_what_cards_do_by_element_type():
    def slowdown(machine: str, dtype: str) -> Slowdown:
        topology = PRESETS[machine]
        described = target_description(topology, topology.targets[-1])
        return described.slowdown(dtypes.BY_NAME[dtype].type)

    assert slowdown("cpu+rtx4090", "f64").operations == pytest.approx(64, abs=0.5)
    for card in ("cpu+a100", "cpu+h100", "cpu+h200", "2xh100"):
        assert slowdown(card, "f64").operations == 2
        assert slowdown(card, "f16").flops < 0.5
        assert slowdown(card, "i64").operations >= 4
    assert slowdown("cpu", "f16").operations == 50
    assert slowdown("cpu", "f64") == (1, 2, 2)


def test_a_plan_for_another_machine_is_noticed():
    module, made_for = ModuleOp([]), PRESETS["cpu+h100"]
    check_plan(module, PRESETS["cpu"])
    stamp_plan(module, made_for)
    assert module.attributes[PLAN] == StringAttr(generation(made_for))
    check_plan(module, made_for)
    check_plan(module, replace(made_for))
    with pytest.raises(TopologyChanged, match=r"but 'cpu' is .*; run fuel-optimize again"):
        check_plan(module, PRESETS["cpu"])
    slower = replace(made_for, links=tuple(replace(k, latency_ns=1) for k in made_for.links))
    with pytest.raises(TopologyChanged, match=generation(made_for)):
        check_plan(module, slower)


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
    assert not serves(gt, replace(DESCRIPTION, lacks=only("gt")))
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


@pytest.mark.parametrize("rate", [LEAST_RATE, MOST_RATE])
def test_the_most_extreme_machine_has_finite_prices(rate: float):
    rates = dict.fromkeys(("bytes_per_ns", "operations_per_ns", "flops_per_ns"), rate)
    links = [Link(a, b, 0, rate) for a, b in (("cpu", "cuda:0"), ("cuda:0", "cpu"))]
    machine = replace(preset("cpu+h100"), links=tuple(links))
    assert 0 <= transfer_ns(machine, "cpu", "cuda:0", 2**62) <= MAX_PRICE
    given = {**topology_json.to_json(machine), "rates": {"cpu/numpy": {**rates, "launch_ns": 0}}}
    module = main(f"%x: {T}", T, f"%y = fuel.exp %x : {T}\nfunc.return %y : {T}")
    topology = topology_schema.from_json(given, "machine")
    module.attributes["fuel.topology"] = attribute_of(topology)
    OptimizePass().apply(make_context(), module)
    assert topology_of(module.attributes["fuel.topology"]) == topology
