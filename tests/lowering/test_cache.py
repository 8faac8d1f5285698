# SPDX-License-Identifier: MIT OR Apache-2.0
"""The disk cache of compiled kernels: what is kept, what goes, and that nothing can break it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuel_dialect import knobs
from fuel_dialect.errors import SettingError
from fuel_lowering import cache
from fuel_lowering.kompute import compile as kompute
from fuel_lowering.triton import compile as triton

HEADER = 5 + 32


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(knobs.CACHE_DIR, str(tmp_path))
    return tmp_path / "kernels"


def get(name: str) -> bytes | None:
    return cache.get(name, bytes)


def entry_of(name: str, folder: Path) -> Path:
    return folder / f"{name}.kernel"


def test_an_entry_comes_back_and_an_unknown_key_is_none():
    name = cache.key("source", "sm_80")
    assert get(name) is None
    cache.put(name, b"cubin")
    assert get(name) == b"cubin"
    cache.put(name, b"")
    assert get(name) == b""


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
    assert get(name) is None
    assert list(folder.iterdir()) == []


def test_a_changed_byte_is_found(folder: Path):
    name = cache.key("x")
    cache.put(name, b"0123456789")
    (path,) = folder.iterdir()
    stored = bytearray(path.read_bytes())
    stored[-1] ^= 1
    path.write_bytes(stored)
    assert get(name) is None
    cache.put(name, b"again")
    assert get(name) == b"again"


def test_the_least_recently_used_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(knobs.CACHE_BYTES, str(16 * (HEADER + 100)))
    names = [cache.key(str(number)) for number in range(17)]
    for age, name in enumerate(names[:16]):
        cache.put(name, bytes(100))
        os.utime(folder / f"{name}.kernel", (1000 + age, 1000 + age))
    assert get(names[0]) is not None
    cache.put(names[16], bytes(100))
    assert [get(name) is not None for name in names] == [True, *[False] * 3, *[True] * 13]


def test_all_entries_are_looked_at_once_for_many(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(knobs.CACHE_BYTES, str(800 * (HEADER + 100)))
    looks = 0
    trim = cache._trim  # pyright: ignore[reportPrivateUsage]

    def counted(*given: Any) -> int:
        nonlocal looks
        looks += 1
        return trim(*given)

    monkeypatch.setattr(cache, "_trim", counted)
    for number in range(1000):
        cache.put(cache.key(str(number)), bytes(100))
        assert len(list(folder.iterdir())) <= 800 if number % 50 == 0 else True
    assert len(list(folder.iterdir())) <= 800
    assert looks <= 12


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
    assert get(cache.key("x")) is None
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
    data = cache.get(cache.key(str((turn + 1) % 5)), bytes)
    assert data is None or (len(data) == 1000 and len(set(data)) == 1), data
"""


def test_processes_share_it_and_see_whole_entries():
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert get(cache.key("0")) in (b"a" * 1000, b"b" * 1000)


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


def test_an_entry_is_tied_to_its_key(folder: Path) -> None:
    one, other = cache.key("one"), cache.key("other")
    cache.put(one, b"1")
    cache.put(other, b"2")
    first, second = entry_of(one, folder), entry_of(other, folder)
    swapped = folder / "swapped"
    first.rename(swapped)
    second.rename(first)
    swapped.rename(second)
    assert (get(one), get(other)) == (None, None)
    assert list(folder.iterdir()) == []


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    real = path.with_suffix(".real")
    path.rename(real)
    path.symlink_to(real)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _socket(path: Path) -> None:
    where = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("s")
        os.rename("s", path)
    finally:
        os.chdir(where)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


STRANGE: dict[str, Callable[[Path], object]] = {
    "fifo": _fifo,
    "link": _link,
    "loop": _loop,
    "null device": lambda path: path.symlink_to("/dev/null"),
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "socket": _socket,
    "huge": _huge,
    "empty": lambda path: path.write_bytes(b""),
    "unreadable": lambda path: (path.write_bytes(b"x"), path.chmod(0)),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_entry_is_neither_waited_for_nor_used(folder: Path, kind: str) -> None:
    name = cache.key("x")
    cache.put(name, b"data")
    path = entry_of(name, folder)
    if kind != "link":
        path.unlink()
    STRANGE[kind](path)
    assert get(name) is None
    cache.put(name, b"again")
    assert get(name) == b"again"


def test_a_folder_in_place_of_an_entry_is_left(folder: Path) -> None:
    name = cache.key("x")
    inside = entry_of(name, folder) / "mine"
    inside.mkdir(parents=True)
    folder.chmod(0o700)
    assert get(name) is None
    cache.put(name, b"data")
    assert get(name) is None
    cache.clear()
    assert inside.is_dir()
    assert [path.name for path in folder.iterdir()] == [f"{name}.kernel"]


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_not_used(folder: Path, mode: int) -> None:
    name = cache.key("x")
    cache.put(name, b"data")
    folder.chmod(mode)
    assert get(name) is None
    cache.put(cache.key("y"), b"data")
    cache.clear()
    assert [path.name for path in folder.iterdir()] == [f"{name}.kernel"]
    folder.chmod(0o700)
    assert get(name) == b"data"


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_entry_that_others_may_write_is_not_used(folder: Path, mode: int) -> None:
    name = cache.key("x")
    cache.put(name, b"data")
    entry_of(name, folder).chmod(mode)
    assert get(name) is None
    assert not entry_of(name, folder).exists()


@pytest.mark.parametrize("what", ["folder", "entry"])
def test_what_another_user_owns_is_not_used(
    folder: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = cache.key("x")
    cache.put(name, b"data")
    own = os.geteuid()
    asked = iter([own + 1, own] if what == "folder" else [own, own + 1])
    monkeypatch.setattr(os, "geteuid", lambda: next(asked))
    assert get(name) is None
    monkeypatch.undo()
    monkeypatch.setenv(knobs.CACHE_DIR, str(folder.parent))
    assert (get(name) is None) == (what == "entry")


@pytest.mark.parametrize("error", [ValueError, KeyError, MemoryError, RecursionError])
def test_a_right_checksum_over_wrong_bytes(folder: Path, error: type[Exception]) -> None:
    def refuse(data: bytes) -> bytes:
        raise error(data)

    name = cache.key("x")
    cache.put(name, b"garbage")
    assert cache.get(name, refuse) is None
    assert get(name) is None


@pytest.mark.parametrize("garbage", [b"", b"\n", b"[]\n", b"{}\nx", b"\xff\nx", b'{"name": 1}\nx'])
def test_garbage_is_compiled_again(garbage: bytes) -> None:
    name = cache.key("x")
    for read in (triton._unpack, kompute._checked):
        cache.put(name, garbage)
        assert cache.get(name, read) is None


KILLED = """
import os, sys
from fuel_lowering import cache

whole = os.replace
os.replace = lambda *paths: os.kill(os.getpid(), 9) if sys.argv[1] == "written" else whole(*paths)
if sys.argv[1] == "half":
    digest = cache._digest
    cache._trim = lambda *_: os.kill(os.getpid(), 9)
cache.put(cache.key("x"), b"data" * 1000)
"""


@pytest.mark.parametrize("when", ["written", "half"])
def test_a_writer_that_is_killed(folder: Path, when: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, when], check=False)
    assert done.returncode == -9
    assert get(cache.key("x")) in (None, b"data" * 1000)
    cache.put(cache.key("x"), b"again")
    assert get(cache.key("x")) == b"again"
