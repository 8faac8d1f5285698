# SPDX-License-Identifier: MIT OR Apache-2.0
"""Saved programs: the same results without compiling, and a sentence for what cannot be used."""

from __future__ import annotations

import json
import marshal
import struct
import zipfile
import zlib
from collections.abc import Callable
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fuel_dialect as fuel
from fake_devices import fake
from fuel_dialect.errors import (
    DecisionError,
    OutOfMemory,
    SaveFileError,
    TopologyChanged,
    WeightError,
)
from fuel_lowering import bytecode, cache
from fuel_passes.pipeline import OptimizePass
from fuel_runtime import Executable, Session
from fuel_runtime.compile import saved_file, saving
from live_programs import TWO, Lab, X, two

WEIGHTED = """
func.func @main(%x: tensor<8x16xf32> {fuel.name = "x"}) -> (tensor<8x16xf32>, tensor<16xf32>) {
  %w = fuel.weight "w" : tensor<16x16xf32>
  %b = fuel.weight "b" : tensor<16xf32>
  %c = fuel.const 2.0 : f32 -> tensor<8x16xf32>
  %y = fuel.matmul %x, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %s = fuel.softmax_last_dim %y : tensor<8x16xf32>
  %z = fuel.mul %s, %c : tensor<8x16xf32>
  func.return %z, %b : tensor<8x16xf32>, tensor<16xf32>
}
"""
RNG = np.random.default_rng(0)
WEIGHTS = {
    "w": RNG.normal(size=(16, 16)).astype(np.float32),
    "b": RNG.normal(size=16).astype(np.float32),
}
GIVEN = RNG.normal(size=(8, 16)).astype(np.float32)


def stateful() -> Any:
    g = fuel.Graph()
    total = g.state((4,), "f32", name="total")
    x = g.input((4,), "f32", name="x")
    g.update(total, total + x)
    return g.build((total * x).cast("bf16"))


def refuse(*_: object, **__: object) -> Any:
    raise AssertionError("a saved program is compiled again")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A saved program with its weights."""
    path = tmp_path / "p.fuel"
    Session().compile(WEIGHTED, weights=WEIGHTS).save(path, weights=True)
    return path


@pytest.mark.parametrize("names", ["cpu", "cpu,cuda:0", "cuda:0"])
def test_a_loaded_program_gives_the_same_bits_and_compiles_nothing(
    names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.fuel"
    devices = fake(names)
    exe = Session(devices).compile(WEIGHTED, weights=WEIGHTS)
    exe.save(path, weights=True)
    want = exe(GIVEN)
    monkeypatch.setattr(OptimizePass, "rewrite", refuse)
    monkeypatch.setattr("fake_devices.lower_run", refuse)
    monkeypatch.setattr(devices.host, "lower", refuse)
    loaded = Session(fake(names)).load(path)
    for one, other in zip(want, loaded(x=GIVEN), strict=True):
        np.testing.assert_array_equal(one, other)
    assert str(loaded.signature) == str(exe.signature)
    assert loaded.source == exe.source
    assert loaded.report().runs == exe.report().runs


def test_the_ir_is_parsed_when_it_is_asked_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("fuel_dialect.context.load_program", refuse)
        loaded = Session().load(file)
        loaded(GIVEN)
    assert str(loaded.module) == str(Session().compile(WEIGHTED, weights=WEIGHTS).module)


def test_a_loaded_program_is_saved_again_equal(file: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.fuel"
    Session().load(file).save(again, weights=True)
    assert again.read_bytes() == file.read_bytes()


def test_weights_that_are_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.fuel"
    exe = Session().compile(WEIGHTED, weights=WEIGHTS)
    exe.save(path)
    assert path.stat().st_size < 20_000
    with pytest.raises(WeightError, match="'w': missing"):
        Session().load(path)
    other = {"w": WEIGHTS["w"] * 2, "b": WEIGHTS["b"]}
    want = Session().compile(WEIGHTED, weights=other)(GIVEN)
    np.testing.assert_array_equal(Session().load(path, weights=other)(GIVEN)[0], want[0])


def test_weights_that_are_given_count_more_than_those_of_the_file(file: Path) -> None:
    (_, got) = Session().load(file, weights={"b": np.zeros(16, np.float32)})(GIVEN)
    np.testing.assert_array_equal(got, np.zeros(16))


def test_state(tmp_path: Path) -> None:
    path = tmp_path / "p.fuel"
    Session().compile(stateful()).save(path)
    loaded = Session().load(path)
    state = loaded.new_state(total=np.ones(4, np.float32))
    x = np.full(4, 3, np.float32)
    (got,) = loaded(x, state=state)
    assert got.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(got.astype(np.float32), np.full(4, 3))
    np.testing.assert_array_equal(state["total"], np.full(4, 4))


@pytest.mark.parametrize("arm", [None, 0, 1, 2])
def test_a_program_with_decisions(arm: int | None, tmp_path: Path) -> None:
    path, names = tmp_path / "p.fuel", "cpu,cuda:0,vulkan:0"
    Lab(names).compile(TWO).save(path)
    lab = Lab(names)
    force = None if arm is None else {"d0": arm, "d1": arm}
    session = Session(lab.devices, telemetry=lab.telemetry, force=force)
    loaded = session.load(path)
    for got, want in zip(loaded(X), two(X), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert loaded.route()["arms"] == {"d0": arm or 0, "d1": arm or 0}
    with pytest.raises(DecisionError, match="there is no decision 'd7'"):
        Session(lab.devices, force={"d7": 0}).load(path)


def test_what_was_compiled_is_kept(tmp_path: Path) -> None:
    """Entries of the cache are collected, and those that are offered are found first."""
    with cache.collecting() as found:
        cache.put("k" * 64, b"code")
    assert found == {"k" * 64: b"code"}
    with cache.offering({"j" * 64: b"other"}):
        assert cache.get("j" * 64, bytes) == b"other"
    assert cache.get("j" * 64, bytes) is None


@pytest.mark.needs_vulkan
def test_shaders_are_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.fuel"
    exe = Session("vulkan:0").compile(WEIGHTED, weights=WEIGHTS)
    exe.save(path, weights=True)
    monkeypatch.setenv("FUEL_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr("fuel_lowering.kompute.compile._compile", refuse)
    loaded = Session("vulkan:0").load(path)
    np.testing.assert_array_equal(loaded(GIVEN)[0], exe(GIVEN)[0])


# Files that cannot be used.


def changed(path: Path, change: Callable[[dict[str, bytes]], object]) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def with_facts(**facts: Any) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        parts["program.json"] = json.dumps({**json.loads(parts["program.json"]), **facts}).encode()

    return change


def with_part(name: str, data: bytes | None) -> Callable[[dict[str, bytes]], None]:
    """A change of a part whose checksum is right again."""

    def change(parts: dict[str, bytes]) -> None:
        sums = json.loads(parts["program.json"])["parts"]
        if data is None:
            del parts[name], sums[name]
        else:
            parts[name], sums[name] = data, zlib.crc32(data)
        with_facts(parts=sums)(parts)

    return change


WRONG: dict[str, tuple[Callable[[dict[str, bytes]], object], str]] = {
    "version of fuel": (with_facts(fuel="0.0.1"), "was saved by fuel 0.0.1 in format 2; this is"),
    "format": (with_facts(format=3), "in format 3; this is fuel .* compile the program again"),
    "other sources": (
        with_facts(sources="0" * 32),
        r"was saved by fuel \d.* with other code \(its digest is 0{32}, this one's [0-9a-f]",
    ),
    "no sources": (
        lambda parts: parts.update({"program.json": b'{"format": 2, "fuel": "0.1.0"}'}),
        "with other code",
    ),
    "a fact more": (with_facts(more=1), "contains unknown field `more`"),
    "NaN": (with_facts(entry=float("nan")), "program.json is not JSON: NaN is no number of JSON"),
    "encoding": (
        lambda parts: parts.update({"program.json": b"\xff{}"}),
        "not a saved program: .*codec",
    ),
    "twice": (
        lambda parts: parts.update({"program.json": b'{"format": 2, "format": 2}'}),
        "has the key 'format' twice",
    ),
    "bounds": (
        with_facts(bounds={"max_ulps": "4"}),
        r"\.bounds\.max_ulps: expected `int \| null`, got '4'",
    ),
    "targets facts": (
        with_facts(targets={"cpu": [3]}),
        r"\.targets\['cpu'\]\[0\]: expected `str`, got 3",
    ),
    "hardware": (with_facts(hardware={"cpu": "pdp11"}), "was saved for cpu = pdp11; here it is "),
    "device": (
        with_facts(hardware={"cuda:3": "H9"}),
        r"for cuda:3 \(H9\): the session has no",
    ),
    "target": (with_facts(targets={"cpu": ["abacus"]}), "saved for cpu/abacus, which this session"),
    "facts": (with_facts(hardware=3), r"hardware: expected `object`, got 3"),
    "no facts": (lambda parts: parts.pop("program.json"), "not a saved program"),
    "no object": (lambda parts: parts.update({"program.json": b"[]"}), "not a saved program"),
    "a part": (lambda parts: parts.update({"code.json": b"{}"}), "its part code.json is damaged"),
    "no part": (lambda parts: parts.pop("module.mlir"), "its part module.mlir is damaged"),
    "no code at all": (with_part("code.json", None), "its part code.json is damaged"),
    "no bytecode at all": (with_part("bytecode", None), "its part bytecode is damaged"),
    "bytecode of numbers": (
        with_part("bytecode", MAGIC_NUMBER + marshal.dumps({"a": 1})),
        "not a whole saved program: no bytecode",
    ),
    "bytecode that ends": (with_part("bytecode", MAGIC_NUMBER), "saved program: no bytecode: "),
    "bytecode of noise": (with_part("bytecode", MAGIC_NUMBER + b"?"), "not a whole saved program"),
    "code of nothing": (with_part("code.json", b"{}"), "not a whole saved program: 'lowered'"),
    "code of a list": (with_part("code.json", b"[]"), "not a whole saved program: "),
    "code of no JSON": (with_part("code.json", b"{"), "not a whole saved program: "),
    "code too deep": (with_part("code.json", b"[" * 10**5), "not a whole saved program: "),
    "another part": (lambda parts: parts.update(more=b""), "its part more is damaged"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_cannot_be_used(what: str, file: Path) -> None:
    change, message = WRONG[what]
    changed(file, change)
    with pytest.raises(SaveFileError, match=message) as caught:
        Session().load(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_cut_short_anywhere(file: Path) -> None:
    whole = file.read_bytes()
    for length in [0, 1, 20, *range(100, len(whole), len(whole) // 60)]:
        file.write_bytes(whole[:length])
        with pytest.raises(SaveFileError, match="not a whole saved program"):
            Session().load(file)


def test_a_byte_that_is_another(file: Path) -> None:
    """It is found, or it is in what no reader looks at."""
    whole = file.read_bytes()
    want = Session().load(file)(GIVEN)[0]
    for place in range(7, len(whole), len(whole) // 120):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            loaded = Session().load(file)
        except SaveFileError:
            continue
        np.testing.assert_array_equal(loaded(GIVEN)[0], want)


def test_a_bound_on_memory_holds_for_a_program_that_is_loaded(file: Path) -> None:
    for attempt in (
        lambda session: session.load(file),
        lambda session: session.compile(WEIGHTED, weights=WEIGHTS),
    ):
        with pytest.raises(OutOfMemory, match="than the 1,024 bytes that the session may take"):
            attempt(Session(memory={"cpu": "1KiB"}))
    np.testing.assert_array_equal(
        Session(memory={"cpu": "1MiB"}).load(file)(GIVEN)[0], Session().load(file)(GIVEN)[0]
    )


def test_a_place_outside_of_the_file(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    struct.pack_into("<I", whole, whole.rfind(b"PK\1\2") + 42, 0x20000000)
    file.write_bytes(whole)
    with pytest.raises(SaveFileError, match="not a whole saved program"):
        Session().load(file)


def test_a_session_that_asks_for_more_than_the_program_was_compiled_for(file: Path) -> None:
    with pytest.raises(SaveFileError, match="was not compiled with deterministic=True"):
        Session(deterministic=True).load(file)
    with pytest.raises(SaveFileError, match="was not compiled with max_ulps=4, but None"):
        Session(max_ulps=4).load(file)
    Session(topology="cpu").load(file)


def test_a_program_that_was_planned_for_another_topology(tmp_path: Path) -> None:
    path = tmp_path / "p.fuel"
    Session(fake("cpu,cuda:0")).compile(WEIGHTED, weights=WEIGHTS).save(path, weights=True)
    with pytest.raises(TopologyChanged):
        Session(fake("cpu,cuda:0"), topology="cpu+h100").load(path)
    Session(fake("cpu,cuda:0")).load(path)


def test_names_and_places_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exe: Executable = Session().compile(stateful())
    with pytest.raises(SaveFileError, match=r"the name of a saved program ends in \.fuel"):
        exe.save(tmp_path / "p.zip")
    with pytest.raises(FileNotFoundError):
        Session().load(tmp_path / "none.fuel")
    exe.save(tmp_path / "p.fuel")
    before = (tmp_path / "p.fuel").read_bytes()

    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved_file, "write", failing)
    with pytest.raises(OSError, match="No space left"):
        exe.save(tmp_path / "p.fuel")
    assert (tmp_path / "p.fuel").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["p.fuel"]


def test_a_run_that_cannot_be_saved_is_lowered_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "RUNS", ())
    path = tmp_path / "q.fuel"
    exe = Session().compile(WEIGHTED, weights=WEIGHTS)
    exe.save(path, weights=True)
    np.testing.assert_array_equal(Session().load(path)(GIVEN)[0], exe(GIVEN)[0])


# What a file spares.


def test_loading_compiles_no_python(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want = Session().load(file)(GIVEN)
    monkeypatch.setattr("fuel_lowering.bytecode.compile", refuse, raising=False)
    for one, other in zip(Session().load(file)(GIVEN), want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_bytecode_of_another_python_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.fuel"
    exe = Session().compile(WEIGHTED, weights=WEIGHTS)
    with monkeypatch.context() as patch:
        patch.setattr(bytecode, "MAGIC_NUMBER", b"\0\0\r\n")
        exe.save(path, weights=True)
    np.testing.assert_array_equal(Session().load(path)(GIVEN)[0], exe(GIVEN)[0])


def test_weights_stay_in_the_file(file: Path) -> None:
    loaded = Session().load(file)
    weight = loaded._code.weights["w"]
    assert not weight.flags.owndata
    assert not weight.flags.writeable
    assert weight.ctypes.data % 8 == 0
    want = loaded(GIVEN)[0]
    file.unlink()
    np.testing.assert_array_equal(loaded(GIVEN)[0], want)


CONSTANT = """
func.func @main(%x: tensor<64x64xf32> {fuel.name = "x"}) -> tensor<64x64xf32> {
  %w = fuel.weight "w" : tensor<64x64xf32>
  %i = fuel.iota : tensor<64xf32>
  %s = fuel.sin %i : tensor<64xf32>
  %p = fuel.broadcast_to %s : tensor<64xf32> -> tensor<64x64xf32>
  %k = fuel.const 0.5 : f32 -> tensor<64x64xf32>
  %h = fuel.mul %p, %k : tensor<64x64xf32>
  %m = fuel.matmul %x, %h : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %y = fuel.matmul %m, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  func.return %y : tensor<64x64xf32>
}
"""


@pytest.mark.parametrize("with_weights", [False, True])
def test_what_constants_decide_is_in_the_file(
    with_weights: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, again = tmp_path / "p.fuel", tmp_path / "again.fuel"
    x, w = (RNG.normal(size=(64, 64)).astype(np.float32) for _ in range(2))
    exe = Session().compile(CONSTANT, weights={"w": w})
    assert exe.report().prepared
    exe.save(path, weights=with_weights)
    monkeypatch.setattr("fuel_dialect.context.parse_module", refuse)
    loaded = Session().load(path, weights=None if with_weights else {"w": w})
    np.testing.assert_array_equal(loaded(x)[0], exe(x)[0])
    other = Session().load(path, weights={"w": 2 * w})
    np.testing.assert_array_equal(other(x)[0], 2 * exe(x)[0])
    loaded.save(again, weights=with_weights)
    assert again.read_bytes() == path.read_bytes()
