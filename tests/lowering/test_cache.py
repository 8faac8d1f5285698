# SPDX-License-Identifier: MIT OR Apache-2.0
"""The disk cache of compiled kernels: what is kept, what goes, and that nothing can break it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuel_dialect import knobs
from fuel_dialect.errors import SettingError
from fuel_lowering import cache

HEADER = 5 + 32


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(knobs.CACHE_DIR, str(tmp_path))
    return tmp_path / "kernels"


def test_an_entry_comes_back_and_an_unknown_key_is_none():
    name = cache.key("source", "sm_80")
    assert cache.get(name) is None
    cache.put(name, b"cubin")
    assert cache.get(name) == b"cubin"
    cache.put(name, b"")
    assert cache.get(name) == b""


def test_keys_tell_parts_apart():
    keys = {cache.key("ab", "c"), cache.key("a", "bc"), cache.key("abc"), cache.key("abc", "")}
    assert len(keys) == 4
    assert cache.key("abc") == cache.key(b"abc")


@pytest.mark.parametrize("damage", [0, 3, HEADER, HEADER + 2])
def test_a_truncated_entry_is_dropped(folder: Path, damage: int):
    name = cache.key("x")
    cache.put(name, b"0123456789")
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:damage])
    assert cache.get(name) is None
    assert list(folder.iterdir()) == []


def test_a_changed_byte_is_found(folder: Path):
    name = cache.key("x")
    cache.put(name, b"0123456789")
    (path,) = folder.iterdir()
    stored = bytearray(path.read_bytes())
    stored[-1] ^= 1
    path.write_bytes(stored)
    assert cache.get(name) is None
    cache.put(name, b"again")
    assert cache.get(name) == b"again"


def test_the_least_recently_used_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(knobs.CACHE_BYTES, str(3 * (HEADER + 100)))
    names = [cache.key(str(number)) for number in range(4)]
    for age, name in enumerate(names[:3]):
        cache.put(name, bytes(100))
        os.utime(folder / f"{name}.kernel", (1000 + age, 1000 + age))
    assert cache.get(names[0]) is not None
    cache.put(names[3], bytes(100))
    assert [cache.get(name) is not None for name in names] == [True, False, True, True]


def test_what_is_larger_than_the_cache_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(knobs.CACHE_BYTES, "0")
    cache.put(cache.key("x"), b"data")
    assert not folder.exists()


def test_files_of_dead_writers_go(folder: Path):
    folder.mkdir()
    old, new = folder / "a.part", folder / "b.part"
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (1000, 1000))
    cache.put(cache.key("x"), b"data")
    assert not old.exists()
    assert new.exists()


def test_clear_removes_entries_only(folder: Path):
    cache.clear()
    cache.put(cache.key("x"), b"data")
    (folder / "README").write_text("mine")
    cache.clear()
    assert [path.name for path in folder.iterdir()] == ["README"]


def test_a_place_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv(knobs.CACHE_DIR, str(blocked))
    cache.put(cache.key("x"), b"data")
    assert cache.get(cache.key("x")) is None
    cache.clear()


def test_a_full_disk_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def full(source: str, target: Path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.put(cache.key("x"), b"data")
    assert list(folder.iterdir()) == []


WRITER = """
import sys
from fuel_lowering import cache

for turn in range(50):
    cache.put(cache.key(str(turn % 5)), sys.argv[1].encode() * 1000)
    data = cache.get(cache.key(str((turn + 1) % 5)))
    assert data is None or (len(data) == 1000 and len(set(data)) == 1), data
"""


def test_processes_share_it_and_see_whole_entries():
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert cache.get(cache.key("0")) in (b"a" * 1000, b"b" * 1000)


def test_the_place_follows_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(knobs.CACHE_DIR)
    monkeypatch.setenv("XDG_CACHE_HOME", "base")
    assert knobs.cache_directory() == Path("base/fuel")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "home")
    assert knobs.cache_directory() == Path("home/.cache/fuel")


@pytest.mark.parametrize("text", ["many", "-1", "1.5"])
def test_a_bound_that_is_no_number_is_an_error(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(knobs.CACHE_BYTES, text)
    with pytest.raises(SettingError, match=rf"FUEL_CACHE_BYTES is '{text}'; it must be a whole"):
        knobs.cache_bytes()
