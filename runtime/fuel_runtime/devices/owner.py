# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says what runs and weights ask of the device that holds their memory."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from fuel_runtime.devices.arrays import ArrayOwner

if TYPE_CHECKING:
    import numpy as np

    from fuel_runtime.devices.interface import BoundLaunch, Driver, Limits
    from fuel_runtime.devices.marks import Progress
    from fuel_runtime.devices.memory_pool import Lease, Pool
    from fuel_runtime.devices.watchdog import Watchdog


class Owner(ArrayOwner, Protocol):
    """A device with memory of its own; everything here happens under its `lock`."""

    lock: Lock
    driver: Driver
    pool: Pool
    watchdog: Watchdog
    progress: Progress
    is_open: bool
    uploaded_bytes: int
    """The bytes of weights and constants that were brought so far."""
    latest: Any
    """A weak reference to the weights of the executable of which a run was called last."""
    uploads: Any
    """The arrays of the host that are on the device, by address and bytes."""

    @property
    def limits(self) -> Limits:
        """The limits of the device."""
        ...

    def check_ready(self) -> None:
        """Raises `DeviceUnavailable` if the device is closed, `DeviceTimeout` while it is late."""
        ...

    def take(self, bytes: int) -> Lease:
        """Returns memory for so many bytes. Raises `OutOfMemory`."""
        ...

    def allocate(self, size: int) -> Lease:
        """Returns new memory of a size class. Raises `OutOfMemory`."""
        ...

    def upload(self, array: np.ndarray[Any, Any]) -> Lease:
        """Returns memory with the elements of an array of the host."""
        ...

    def workspace(self, sizes: Sequence[int]) -> list[Lease]:
        """Returns memory of some sizes for the temporaries of a run."""
        ...

    def record(self, launches: Sequence[BoundLaunch]) -> Any:
        """Records launches."""
        ...

    def watch(self, run: Any, recordings: dict[tuple[int, ...], Any]) -> None:
        """Gives the recordings of a run up once it is gone, when the device is used next."""
        ...
