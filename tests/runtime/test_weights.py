# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of arrays: what they carry, and what happens when they are damaged."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from fuel_dialect import dtypes
from fuel_dialect.errors import ArrayFileError, OutOfMemory
from fuel_runtime import load_arrays, save_arrays

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


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    save_arrays(path, {"a": np.arange(1000, dtype=np.float32)})
    data = bytearray(path.read_bytes())
    data[2000] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ArrayFileError, match="not a whole npz file: Bad CRC"):
        load_arrays(path)


def test_npz_never_unpickles(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.array([{"not": "numbers"}], dtype=object))
    with pytest.raises(ArrayFileError, match="not a whole npz file: Object arrays cannot"):
        load_arrays(path)


def test_an_npy_file_is_no_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ArrayFileError, match="not an npz file, but a single array"):
        load_arrays(path)


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
                load_arrays(path)
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
        "its header has 'x' twice",
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
        load_arrays(path)
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
        load_arrays(path)
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
        load_arrays(path)


def test_more_than_the_host_has_is_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros(1000))
    monkeypatch.setattr("fuel_runtime.array_files.physical_bytes", lambda: 4096)
    with pytest.raises(OutOfMemory, match=r"8,\d\d\d bytes of arrays; the host has 4,096"):
        load_arrays(path)
