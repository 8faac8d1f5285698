# SPDX-License-Identifier: MIT OR Apache-2.0
"""Brings values of a walk to devices, and counts what moves."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

from fuel_dialect.errors import OutOfMemory

if TYPE_CHECKING:
    from fuel_runtime.call.report import TransferReport
    from fuel_runtime.devices.interface import Device


class TransferFunction:
    """
    Brings a value to one device.

    An argument that is there already is handed on as it is, and does not count as moved.
    """

    def __init__(self, device: Device, report: TransferReport, reader: str, memory: int = 0):
        self._receive = device.receive
        self._reader = reader
        self._memory = memory
        self._lock = Lock()
        self.report = report
        self.moves = 0

    def __call__(self, value: Any) -> Any:
        """Returns the value on the device. Raises `OutOfMemory` that names it and who reads it."""
        try:
            moved = self._receive(value, self._memory)
        except OutOfMemory as error:
            # Its frames hold memory that another arm needs.
            reason, error.__traceback__ = str(error), None
        else:
            if moved is not value:
                with self._lock:
                    self.moves += 1
            return moved
        report = self.report
        raise OutOfMemory(f"{report.value} is brought to {report.to} for {self._reader}: {reason}")


class Once:
    """Brings a leaf to a device when it is first read there, and keeps it there."""

    def __init__(self, move: Callable[[Any], Any]):
        self._move = move
        self._lock = Lock()
        self._kept: Any = None

    def __call__(self, value: Any) -> Any:
        """Returns the value on the device. Raises `OutOfMemory`."""
        with self._lock:
            if self._kept is None:
                self._kept = self._move(value)
            return self._kept

    def through(self, watch: Callable[[Any], Callable[[Any], Any]]) -> Callable[[Any], Any]:
        """Returns the same function, whose one move is made by what `watch` makes of it."""
        move = watch(self._move)

        def bring(value: Any) -> Any:
            with self._lock:
                if self._kept is None:
                    self._kept = move(value)
                return self._kept

        return bring
