# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of arrays: what they carry, and what happens when they are damaged."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from fuel_dialect import dtypes
from fuel_dialect.errors import ArrayFileError, OutOfMemory
from fuel_runtime import Session, load_arrays, save_arrays

HELD = [dtype for dtype in dtypes.TABLE if dtype.numpy_name is not None]


def values(dtype: dtypes.DType) -> np.ndarray[Any, Any]:
    return np.array([[0, 1, 2], [4, 8, 16]]).astype(dtype.numpy)


def assert_same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", HELD, ids=str)
def test_safetensors_carries_every_dtype(dtype: dtypes.DType, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_arrays(path, {"a": values(dtype)})
    assert_same(load_arrays(path)["a"], values(dtype))


@pytest.mark.parametrize("dtype", HELD, ids=str)
def test_npz_carries_what_numpy_has(dtype: dtypes.DType, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    if hasattr(np, str(dtype.numpy_name)):
        save_arrays(path, {"a": values(dtype)})
        assert_same(load_arrays(path)["a"], values(dtype))
        return
    message = f"npz cannot hold 'a', which is {dtype}; write a .safetensors file, which can"
    with pytest.raises(ArrayFileError, match=re.escape(message)):
        save_arrays(path, {"a": values(dtype)})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.safetensors", "a.npz"])
def test_shapes_and_strides(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    wide = np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays = {
        "scalar": np.array(3, np.int64),
        "empty": np.zeros((0, 3), np.int8),
        "strided": wide[:, ::2],
        "transposed": wide.T,
        "constant": np.broadcast_to(np.float32(2), (2, 2)),
        "file": wide[0],
        "a/b.c": wide[1],
    }
    save_arrays(path, arrays)
    loaded = load_arrays(path)
    assert loaded.keys() == arrays.keys()
    for key, array in arrays.items():
        assert_same(loaded[key], np.ascontiguousarray(array).reshape(array.shape))


def test_safetensors_types_that_fuel_does_not_compute_with(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    arrays = {"a": np.arange(3, dtype=np.uint16), "b": np.arange(3, dtype=np.uint64)}
    safetensors.numpy.save_file(arrays, path)
    for key, array in load_arrays(path).items():
        assert_same(array, arrays[key])


@pytest.mark.parametrize("keep", [0, 4, 20, -1], ids=lambda keep: f"first {keep} bytes")
@pytest.mark.parametrize("name", ["a.safetensors", "a.npz"])
def test_truncated_files(name: str, keep: int, tmp_path: Path) -> None:
    path = tmp_path / name
    save_arrays(path, {"a": np.arange(100, dtype=np.float32)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArrayFileError, match=r"not a whole (safetensors|npz) file: ") as caught:
        load_arrays(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def read(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Returns all arrays of a file, each asked for."""
    return dict(load_arrays(path))


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    save_arrays(path, {"a": np.arange(1000, dtype=np.float32)})
    data = bytearray(path.read_bytes())
    data[2000] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ArrayFileError, match="not a whole npz file: Bad CRC"):
        read(path)


def test_npz_never_unpickles(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.array([{"not": "numbers"}], dtype=object))
    with pytest.raises(ArrayFileError, match="not a whole npz file: Object arrays cannot"):
        read(path)


def test_an_npy_file_is_no_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ArrayFileError, match="not an npz file, but a single array"):
        read(path)


def test_other_endings(tmp_path: Path) -> None:
    for act in (load_arrays, lambda path: save_arrays(path, {})):
        with pytest.raises(ArrayFileError, match=r"name must end in \.safetensors or \.npz"):
            act(tmp_path / "a.txt")


def test_a_missing_file_and_a_missing_folder(tmp_path: Path) -> None:
    for name in ("a.npz", "a.safetensors"):
        with pytest.raises(FileNotFoundError):
            load_arrays(tmp_path / name)
        with pytest.raises(FileNotFoundError):
            save_arrays(tmp_path / "nowhere" / name, {})


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors"])
def test_writing_is_all_or_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    save_arrays(path, {"a": np.zeros(3)})
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_arrays(path, {"a": np.ones(1000)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_ordinary_permissions(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    save_arrays(tmp_path / "a.npz", {"a": np.zeros(3)})
    assert (tmp_path / "a.npz").stat().st_mode == plain.stat().st_mode


def test_damage_inside_an_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.arange(1000, dtype=np.float32), b=np.ones(3))
    whole = path.read_bytes()
    messages: list[str] = []
    for place in range(0, len(whole), 7):
        for byte in (0x00, 0xFF, whole[place] ^ 0x01):
            path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            try:
                read(path)
            except ArrayFileError as error:
                messages.append(str(error))
    assert len(messages) > 100
    assert all(message.startswith(f"{path}: not ") for message in messages)


@pytest.mark.parametrize("text", [b"hello there", b"\x93NUMP", b"\x00" * 100])
def test_what_is_no_npz(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(text)
    with pytest.raises(ArrayFileError, match="not an npz file, which is a zip archive of arrays"):
        load_arrays(tmp_path / "a.npz")


def safetensors_of(header: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header.encode() + data


def entry(shape: list[int], dtype: str = "F32", end: int = 4) -> str:
    return json.dumps({"dtype": dtype, "shape": shape, "data_offsets": [0, end]})


WRONG_SAFETENSORS: dict[str, tuple[bytes, str]] = {
    "rank": (safetensors_of(f'{{"x": {entry([1] * 65)}}}', bytes(4)), "'x' has 65 dims; an array"),
    "extent": (safetensors_of(f'{{"x": {entry([1 << 62, 0], end=0)}}}'), "'x' of shape"),
    "twice": (
        safetensors_of(f'{{"x": {entry([1])}, "x": {entry([1])}}}', bytes(4)),
        "its header is not JSON: an object has the key 'x' twice",
    ),
    "twice inside": (
        safetensors_of(
            '{"x": {"dtype": "F32", "dtype": "I32", "shape": [], "data_offsets": [0, 4]}}'
        )
        + bytes(4),
        "",
    ),
    "truth": (safetensors_of(f'{{"x": {entry([1], "BOOL", 1)}}}', b"\7"), "one of which is 7"),
    "length": (struct.pack("<Q", 1 << 63) + b"{}", ""),
    "deep": (safetensors_of("[" * 100_000), ""),
    "digits": (safetensors_of('{"x": ' + "9" * 5000 + "}"), ""),
    "negative": (safetensors_of(f'{{"x": {entry([-1])}}}', bytes(4)), ""),
    "surplus": (safetensors_of(f'{{"x": {entry([1])}}}', bytes(8)), ""),
}


@pytest.mark.parametrize("kind", WRONG_SAFETENSORS)
def test_a_safetensors_file_that_claims_what_it_lacks(kind: str, tmp_path: Path) -> None:
    content, message = WRONG_SAFETENSORS[kind]
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(ArrayFileError, match="not a whole safetensors file: ") as caught:
        read(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def npy(shape: object, dtype: object = "<f4", data: bytes = b"", version: bytes = b"\1\0") -> bytes:
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    width = "<H" if version == b"\1\0" else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(header)) + header + data


def archive(*members: tuple[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as made:
        for name, content in members:
            made.writestr(name, content)
    return file.getvalue()


def claiming(size: int) -> bytes:
    """An archive whose directory says that its member takes so many bytes."""
    stored = archive(("x.npy", npy((1,), data=bytes(4))), how=zipfile.ZIP_DEFLATED)
    place = stored.index(b"PK\1\2") + 24
    return stored[:place] + struct.pack("<I", size) + stored[place + 4 :]


ONE = npy((1,), data=bytes(4))

WRONG_NPZ: dict[str, tuple[bytes, str]] = {
    "4 TiB": (archive(("x.npy", npy((1 << 40,)))), "4,398,046,5"),
    "zeros": (archive(("x.npy", npy((1 << 62, 0, 1 << 62)))), ""),
    "less": (archive(("x.npy", ONE[:-1])), "claims to be"),
    "more": (archive(("x.npy", ONE + b"x")), "claims to be"),
    "negative": (archive(("x.npy", npy((-1,), data=bytes(4)))), ""),
    "rank": (archive(("x.npy", npy((1,) * 65, data=bytes(4)))), "65 dims"),
    "not numbers": (archive(("x.npy", npy(("a",), data=bytes(4)))), ""),
    "no tuple": (archive(("x.npy", npy(1.5, data=bytes(4)))), ""),
    "pickle": (archive(("x.npy", npy((1,), "|O", b"cos\nsystem\n."))), "Object arrays"),
    "code": (archive(("x.npy", npy((1,), ["__import__('os')"]))), ""),
    "no dtype": (archive(("x.npy", npy((1,), "quux", bytes(4)))), ""),
    "version": (archive(("x.npy", npy((1,), data=bytes(4), version=b"\3\0"))), "version (3, 0)"),
    "text": (archive(("readme.txt", b"hello, this is text")), ""),
    "twice": (archive(("x.npy", ONE), ("x", ONE)), "it has 'x' twice"),
    "truth": (archive(("x.npy", npy((1,), "|b1", b"\7"))), "one of which is 7"),
    "expansion": (claiming(1 << 31), "compressed ones hold"),
    "method": (archive(("x.npy", ONE), how=zipfile.ZIP_LZMA), "compressed as npz files are not"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", WRONG_NPZ)
def test_an_npz_file_that_claims_what_it_lacks(kind: str, tmp_path: Path) -> None:
    content, message = WRONG_NPZ[kind]
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(ArrayFileError, match="not a whole npz file: ") as caught:
        read(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_members_that_share_their_bytes_are_a_bomb(tmp_path: Path) -> None:
    stored = archive(("x.npy", npy((4096,), data=bytes(4 * 4096))))
    start = stored.index(b"PK\1\2")
    end = stored.index(b"PK\5\6")
    entry = stored[start:end]
    tail = stored[end:]
    entries = b"".join(entry.replace(b"x.npy", b"%c.npy" % name) for name in b"abcdefgh")
    tail = tail[:8] + struct.pack("<HHI", 8, 8, len(entries)) + tail[16:]
    path = tmp_path / "a.npz"
    path.write_bytes(stored[:start] + entries + tail)
    with pytest.raises(ArrayFileError, match="not a whole npz file: its members take more than it"):
        read(path)


def test_more_than_the_host_has_is_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    monkeypatch.setattr("fuel_runtime.npz_files.physical_bytes", lambda: 4096)
    np.savez_compressed(path, x=np.zeros(1000))
    with pytest.raises(OutOfMemory, match=r"'x' of .*, 8,\d\d\d bytes; the host has 4,096"):
        read(path)
    np.savez(path, x=np.zeros(1000))
    assert not read(path)["x"].any(), "what is mapped takes no memory of its own"


# Mapped files.

FORMATS = ("a.safetensors", "a.npz")


@pytest.mark.parametrize("name", FORMATS)
def test_an_array_is_a_view_of_its_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    arrays = {f"w{'x' * i}": np.full((3, 5), i, np.float64) for i in range(40)}
    save_arrays(path, arrays)
    loaded = load_arrays(path)
    assert list(loaded) == list(arrays)
    for key, array in arrays.items():
        assert_same(loaded[key], array)
        assert not loaded[key].flags.owndata
        assert not loaded[key].flags.writeable
        assert loaded[key].flags.aligned


def test_members_of_archives_start_at_multiples_of_64(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    arrays = {f"wé{'x' * i}": np.full((2, 3), i, np.float64) for i in range(70)}
    save_arrays(path, arrays)
    loaded = load_arrays(path)
    assert all(loaded[key].ctypes.data % 64 == 0 for key in arrays)
    with np.load(path) as archive:
        for key, array in arrays.items():
            assert_same(archive[key], array)


TYPES = ("<f8", ">f4", "<i2", "?")


@pytest.mark.parametrize("make", [np.savez, np.savez_compressed])
def test_archives_of_numpy(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    base = np.arange(6.0).reshape(2, 3)
    kinds = [
        *((dtype, base) for dtype in TYPES),
        *((dtype, np.asfortranarray(base)) for dtype in TYPES),
    ]
    arrays = {f"w{'x' * i}": given.astype(dtype) for i, (dtype, given) in enumerate(kinds)}
    arrays |= {"one": np.asarray(np.float32(3)), "none": np.zeros((0, 2))}
    make(path, **arrays)
    loaded = load_arrays(path)
    for key, array in arrays.items():
        assert_same(loaded[key], np.asarray(array))
        assert loaded[key].flags.aligned
        assert not loaded[key].flags.writeable


def test_an_array_that_is_not_aligned_is_a_copy(tmp_path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}})
    header += " " * (3 - len(header) % 8)
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors_of(header, np.array([1.5, -2]).tobytes()))
    array = load_arrays(path)["x"]
    np.testing.assert_array_equal(array, [1.5, -2])
    assert array.flags.aligned
    assert not array.flags.writeable


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    """Tests a file of a TiB, nearly all of it a hole, of which 16 bytes are wanted."""
    path, most = tmp_path / "a.safetensors", 1 << 40
    places = {"big": (0, most, "U8", [most]), "small": (most, most + 16, "F32", [4])}
    header = json.dumps(
        {
            name: {"dtype": dtype, "shape": shape, "data_offsets": [first, after]}
            for name, (first, after, dtype, shape) in places.items()
        }
    )
    with path.open("wb") as file:
        file.write(safetensors_of(header))
        file.seek(most, 1)
        file.write(np.arange(4, dtype=np.float32).tobytes())
    arrays = load_arrays(path)
    np.testing.assert_array_equal(arrays["small"], range(4))
    assert arrays["big"].shape == (most,)
    assert arrays["big"][most // 2] == 0


def test_what_is_wrong_with_one_array_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "known": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
            "packed": {"dtype": "F4", "shape": [4], "data_offsets": [4, 6]},
            "truth": {"dtype": "BOOL", "shape": [2], "data_offsets": [6, 8]},
        }
    )
    path.write_bytes(safetensors_of(header, np.float32(3).tobytes() + bytes([0x21, 0x43, 1, 2])))
    arrays = load_arrays(path)
    np.testing.assert_array_equal(arrays["known"], [3])
    with pytest.raises(ArrayFileError, match="'packed' is F4, which NumPy has no dtype for"):
        arrays["packed"]
    with pytest.raises(ArrayFileError, match="'truth' has truth values, one of which is 2"):
        arrays["truth"]
    with pytest.raises(KeyError):
        arrays["absent"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_changes_after_it_was_opened(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    before, after = np.zeros(3000, np.float32), np.ones(3000, np.float32)
    save_arrays(path, {"a": before})
    arrays = load_arrays(path)
    view = arrays["a"]
    save_arrays(path, {"a": after})
    np.testing.assert_array_equal(arrays["a"], before)
    np.testing.assert_array_equal(load_arrays(path)["a"], after)
    path.unlink()
    np.testing.assert_array_equal(arrays["a"], before)
    np.testing.assert_array_equal(view, before)
    save_arrays(path, {"a": after})
    arrays = load_arrays(path)
    os.utime(path, ns=(0, 0))
    with pytest.raises(ArrayFileError, match="has changed since it was opened"):
        arrays["a"]
    arrays = load_arrays(path)
    os.truncate(path, 100)
    with pytest.raises(ArrayFileError, match="has become shorter since it was opened"):
        arrays["a"]


def test_a_program_keeps_the_mapped_weights_that_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    header = json.dumps(
        {
            "w": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]},
            "other": {"dtype": "F4", "shape": [4], "data_offsets": [48, 50]},
        }
    )
    path.write_bytes(safetensors_of(header, weight.tobytes() + bytes(2)))
    program = """
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
      %w = fuel.weight "w" : tensor<3x4xf32>
      %y = fuel.matmul %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
      func.return %y : tensor<2x4xf32>
    }"""
    exe = Session().compile(program, weights=path)
    path.unlink()
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(exe(x)[0], x @ weight)


HOLES: dict[str, tuple[dict[str, list[int]], int, str]] = {
    "hole": ({"a": [0, 4], "b": [8, 12]}, 12, "'b' lies at 8 to 12, not from 4 on"),
    "overlap": ({"a": [0, 4], "b": [2, 6]}, 6, "'b' lies at 2 to 6, not from 4 on"),
    "backwards": ({"a": [4, 0]}, 4, "'a' lies at 4 to 0, not from 0 on"),
    "size": ({"a": [0, 8]}, 8, "'a' of shape [1] takes 4 bytes and has 8"),
    "short": ({"a": [0, 4], "b": [4, 8]}, 7, "its arrays take 8 bytes and it has 7"),
    "long": ({"a": [0, 4]}, 5, "its arrays take 4 bytes and it has 5"),
}


@pytest.mark.parametrize("kind", HOLES)
def test_safetensors_whose_arrays_do_not_follow_one_another(kind: str, tmp_path: Path) -> None:
    places, size, message = HOLES[kind]
    path = tmp_path / "a.safetensors"
    header = {k: {"dtype": "F32", "shape": [1], "data_offsets": at} for k, at in places.items()}
    path.write_bytes(safetensors_of(json.dumps(header), bytes(size)))
    with pytest.raises(ArrayFileError, match=re.escape(message)):
        load_arrays(path)


@given(st.data())
def test_one_byte_that_is_another_is_an_error_or_in_the_values(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damage") / data.draw(st.sampled_from(FORMATS))
    arrays = {
        "a": np.arange(5, dtype=np.float32),
        "b": np.array([True, False]),
        "c": np.zeros((2, 0), np.int16),
    }
    save_arrays(path, arrays)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        loaded = read(path)
    except ArrayFileError as error:
        said = str(error)
    else:
        said = f"{path}"
        known = loaded.keys() & arrays.keys() if path.suffix == ".npz" else ()
        for key in known:
            np.testing.assert_array_equal(loaded[key].ravel(), arrays[key].ravel())
    assert said.startswith(str(path))
    assert "\n" not in said


# Checkpoints of several files.


def checkpoint(folder: Path) -> Path:
    save_arrays(folder / "m-1.safetensors", {"a": np.arange(3.0), "b": np.zeros(2)})
    save_arrays(folder / "m-2.safetensors", {"c": values(dtypes.BY_NAME["bf16"])})
    index = folder / "m.safetensors.index.json"
    places = {"a": "m-1.safetensors", "b": "m-1.safetensors", "c": "m-2.safetensors"}
    index.write_text(json.dumps({"metadata": {"total_size": 52}, "weight_map": places}))
    return index


@pytest.mark.parametrize("name", ["a\0.safetensors", "a\0.npz"])
def test_a_name_with_a_zero_byte(name: str) -> None:
    for attempt in (lambda: load_arrays(name), lambda: save_arrays(name, {})):
        with pytest.raises(ArrayFileError, match="it holds a zero byte"):
            attempt()


def test_a_reserved_name_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(ArrayFileError, match="'__metadata__' cannot be in a safetensors file"):
        save_arrays(path, {"__metadata__": np.arange(3.0)})
    assert not path.exists()


def test_a_checkpoint_of_several_files(tmp_path: Path) -> None:
    arrays = load_arrays(checkpoint(tmp_path))
    assert list(arrays) == ["a", "b", "c"]
    np.testing.assert_array_equal(arrays["a"], range(3))
    assert_same(arrays["c"], values(dtypes.BY_NAME["bf16"]))


WRONG_INDEXES: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "is not JSON"),
    "no map": ("{}", "missing required field `weight_map`; it needs weight_map"),
    "no text": ('{"weight_map": {"a": 3}}', r"weight_map\['a'\]: expected `str`, got 3"),
    "twice": ('{"weight_map": {"a": "m", "a": "n"}}', "has the key 'a' twice"),
    "elsewhere": (
        '{"weight_map": {"a": "../m-1.safetensors"}}',
        "'../m-1.safetensors' is no safetensors file in its folder",
    ),
    "a zero byte": (
        '{"weight_map": {"a": "a\\u0000.safetensors"}}',
        r"'a\\x00.safetensors' is no safetensors file in",
    ),
    "another kind": ('{"weight_map": {"a": "m.npz"}}', "'m.npz' is no safetensors file in"),
    "lacking": ('{"weight_map": {"d": "m-1.safetensors"}}', "m-1.safetensors has no array 'd'"),
}


@pytest.mark.parametrize("kind", WRONG_INDEXES)
def test_an_index_that_is_none(kind: str, tmp_path: Path) -> None:
    index = checkpoint(tmp_path)
    text, message = WRONG_INDEXES[kind]
    index.write_text(text)
    with pytest.raises(ArrayFileError, match=message) as caught:
        load_arrays(index)
    assert str(caught.value).startswith(str(index))


def test_a_checkpoint_without_one_of_its_files(tmp_path: Path) -> None:
    index = checkpoint(tmp_path)
    (tmp_path / "m-2.safetensors").unlink()
    sentence = r"m\.safetensors\.index\.json: it names m-2\.safetensors: .*No such file"
    with pytest.raises(ArrayFileError, match=sentence):
        load_arrays(index)
    index.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ArrayFileError, match="is no text"):
        load_arrays(index)


@pytest.mark.parametrize("ending", ["safetensors", "npz", "safetensors.index.json"])
def test_a_pipe_is_refused_before_anybody_waits_for_it(ending: str, tmp_path: Path) -> None:
    pipe = tmp_path / f"m.{ending}"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="a pipe cannot be mapped; write it to a file"):
        load_arrays(pipe)


class Asked(dict[str, Any]):
    """Remembers which arrays somebody asked for."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        super().__init__(arrays)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize("prepare_bytes", [0, 1 << 20])
@pytest.mark.parametrize("optimize", [True, False])
def test_compiling_asks_for_the_weights_of_the_program_alone(
    prepare_bytes: int, optimize: bool
) -> None:
    text = """
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
      %w = fuel.weight "w" : tensor<3x4xbf16>
      %c = fuel.cast %w : tensor<3x4xbf16> -> tensor<3x4xf32>
      %y = fuel.matmul %x, %c : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
      func.return %y : tensor<2x4xf32>
    }
    """
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    weights = Asked({"w": w.astype(dtypes.BY_NAME["bf16"].numpy), "other": object()})
    session = Session(prepare_bytes=prepare_bytes)
    exe = session.compile(text, weights=weights, optimize=optimize)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(exe(x)[0], x @ w)
    assert weights.names == {"w"}
