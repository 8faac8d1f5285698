# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Keeps measured times in a file that several processes share: an SQLite store.

A time belongs to a key of the planner: ops, types, shape class, target, revision of the code and
hardware. A store is opened when it is first needed, writes in one transaction each, and holds at
most so many times; what was used longest ago goes first. One that cannot be used says why, and then
knows nothing: a program runs without it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from fuel_dialect.errors import FuelError
from fuel_passes.commands import check_place
from fuel_passes.planning.measurements import MeasurementKey, Measurements

VERSION = 1
"""The version of the schema, in the store's `user_version`."""

APPLICATION = 0x6675656C
"""The mark of a store of fuel: `fuel` in ASCII."""

MOST_TIMES = 100_000
BUSY_S = 2.0
SUFFIXES = (".db", ".sqlite", ".sqlite3")

SCHEMA = """
create table if not exists times (
    key text primary key, count integer not null, ns real not null, spread real not null,
    used integer not null
) without rowid
"""


class MeasurementError(FuelError, ValueError):
    """A store of measured times that cannot be used, or is no store."""


@dataclass(frozen=True)
class Estimate:
    """Holds a robust mean of times in nanoseconds."""

    count: int
    ns: float
    spread: float
    """The mean distance of a time from the mean."""

    def after(self, sample: float) -> Estimate:
        """Returns the estimate with another time; one far off counts as one at the edge."""
        if self.count == 0:
            return Estimate(1, sample, 0.0)
        edge = max(4 * self.spread, self.ns * 0.5)
        held = min(max(sample, self.ns - edge), self.ns + edge) if self.count >= 3 else sample
        share = max(1 / (self.count + 1), NEWEST_SHARE)
        ns = self.ns + share * (held - self.ns)
        spread = self.spread + share * (abs(held - self.ns) - self.spread)
        return Estimate(min(self.count + 1, MOST_COUNT), ns, spread)


NEWEST_SHARE = 0.1
"""The share of the newest of many times in the mean."""

MOST_COUNT = 2**31
NO_ESTIMATE = Estimate(0, 0.0, 0.0)


class MeasuredTimes:
    """
    Holds measured times in memory, over those of a source that was there before.

    `changes` is a new number whenever a time has changed by more than a picker would notice.
    """

    NOTICED = 0.05

    def __init__(self, known: Mapping[MeasurementKey, Estimate] | None = None):
        self._known = dict(known or {})
        self._told = {key: estimate.ns for key, estimate in self._known.items()}
        self._lock = Lock()
        self._fresh: dict[MeasurementKey, list[float]] = {}
        self.changes = 0

    def measured_ns(self, key: MeasurementKey) -> int | None:
        """Returns the nanoseconds of a key; None where nobody has measured it."""
        estimate = self._known.get(key)
        return None if estimate is None else max(1, round(estimate.ns))

    def record(self, key: MeasurementKey, ns: float) -> None:
        """Take in a time."""
        with self._lock:
            estimate = self._known.get(key, NO_ESTIMATE).after(ns)
            self._known[key] = estimate
            self._fresh.setdefault(key, []).append(ns)
            told = self._told.get(key)
            if told is None or abs(estimate.ns - told) > self.NOTICED * told:
                self._told[key] = estimate.ns
                self.changes += 1

    def take_fresh(self) -> dict[MeasurementKey, list[float]]:
        """Returns the times that came since the last call of this."""
        with self._lock:
            fresh, self._fresh = self._fresh, {}
        return fresh

    def __len__(self) -> int:
        return len(self._known)


@dataclass(frozen=True)
class Row:
    """Holds one time of a store."""

    key: MeasurementKey
    estimate: Estimate
    used: int
    """When it was written last, in seconds since 1970."""


class MeasurementStore:
    """
    Keeps times in a file. Raises `MeasurementError` for a file that is no store or cannot be used.

    `read_only` neither makes nor changes the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, read_only: bool = False, most: int = MOST_TIMES
    ):
        self.path = Path(path)
        self._read_only = read_only
        self._most = most
        if read_only and not self.path.is_file():
            raise MeasurementError(f"measurements {self.path}: there is no such file")
        with self._connection():
            pass

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction; one connection a use is safe across forks."""
        try:
            connection = self._opened()
            try:
                with connection:
                    yield connection
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            raise MeasurementError(f"measurements {self.path}: {error}") from error

    def _opened(self) -> sqlite3.Connection:
        mode = "ro" if self._read_only else "rwc"
        if not self._read_only:
            check_place(self.path)
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_S
        )
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Make the schema of a new file; refuse what is no store of this version."""
        connection.execute("begin")  # what is read next is of one moment
        is_new = self._is_new(connection)
        connection.rollback()
        if not is_new:
            return
        _use_wal(connection)
        connection.execute("begin immediate")
        if self._is_new(connection):  # another process may have made it meanwhile
            connection.execute(SCHEMA)
            connection.execute(f"pragma application_id = {APPLICATION}")
            connection.execute(f"pragma user_version = {VERSION}")
        connection.commit()

    def _is_new(self, connection: sqlite3.Connection) -> bool:
        """Returns True for a file to make a store of, False for a store of this version."""
        (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
        (mark,) = connection.execute("pragma application_id").fetchone()
        (version,) = connection.execute("pragma user_version").fetchone()
        if mark == APPLICATION and version == VERSION:
            return False
        if mark == 0 and version == 0 and tables == 0 and not self._read_only:
            return True
        if mark != APPLICATION:
            raise MeasurementError(f"measurements {self.path}: it is no store of measured times")
        raise MeasurementError(
            f"measurements {self.path}: it has version {version}, this fuel reads {VERSION}; "
            "delete it, or use another file"
        )

    def rows(self) -> list[Row]:
        """Returns all times, in the order of their keys. Raises `MeasurementError`."""
        with self._connection() as connection:
            found = connection.execute(
                "select key, count, ns, spread, used from times order by key"
            ).fetchall()
        return [
            Row(_key_of(text, self.path), Estimate(count, ns, spread), used)
            for text, count, ns, spread, used in found
        ]

    def load(self) -> dict[MeasurementKey, Estimate]:
        """Returns all times by key. Raises `MeasurementError`."""
        return {row.key: row.estimate for row in self.rows()}

    def add(self, times: Mapping[MeasurementKey, Iterable[float]]) -> None:
        """Take in times, with what other processes have written by then, in one transaction."""
        if not times:
            return
        now = int(time.time())
        with self._connection() as connection:
            connection.execute("begin immediate")
            for key, samples in times.items():
                _merge(connection, _text_of(key), samples, now)
            connection.execute(
                "delete from times where key in (select key from times order by used desc, key "
                "limit -1 offset ?)",
                (self._most,),
            )

    def prune(self, *, older_than_s: float | None = None, target: str | None = None) -> int:
        """Delete the times that are older or of a target, all without either; how many."""
        now = time.time()

        def is_doomed(row: Row) -> bool:
            is_old = older_than_s is None or now - row.used > older_than_s
            return is_old and (target is None or row.key.target == target)

        doomed = [(_text_of(row.key),) for row in self.rows() if is_doomed(row)]
        with self._connection() as connection:
            connection.executemany("delete from times where key = ?", doomed)
        return len(doomed)

    def measurements(self) -> Measurements:
        """Returns what `measurements=` of a session or of a pass reads."""
        return Measurements({k: max(1, round(e.ns)) for k, e in self.load().items()})


def _merge(connection: sqlite3.Connection, key: str, samples: Iterable[float], now: int) -> None:
    row = connection.execute("select count, ns, spread from times where key = ?", (key,)).fetchone()
    estimate = NO_ESTIMATE if row is None else Estimate(*row)
    for sample in samples:
        estimate = estimate.after(sample)
    connection.execute(
        "insert or replace into times values (?, ?, ?, ?, ?)",
        (key, estimate.count, estimate.ns, estimate.spread, now),
    )


KeyFields = tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...], str, str, str]
"""The fields of a key, as a store writes them."""


def _text_of(key: MeasurementKey) -> str:
    fields = key.ops, key.dtypes, key.shape_class, key.target, key.revision, key.hardware
    return json.dumps(fields, separators=(",", ":"))


def _key_of(text: str, path: Path) -> MeasurementKey:
    from fuel_passes.strict_json import decode

    where = f"measurements {path}: the key {text}"
    return MeasurementKey(*decode(text, KeyFields, where, MeasurementError))


def is_store(path: object) -> bool:
    """Returns True for a path whose suffix says that it is a store, not a JSON file."""
    return isinstance(path, str | os.PathLike) and os.fspath(path).endswith(SUFFIXES)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Lets readers go on beside a writer. SQLite itself waits for nobody who does the same."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
