# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Represents the virtual time of a call on emulated devices.

Nothing waits in real time. A launch advances the clock of its device and leaves that of the host
alone; what the host waits for advances its own. So the time that a call would take is known
exactly, however loaded the machine is that emulates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fuel_passes.finishing.overlap import Prices
from fuel_passes.planning.device_clocks import DeviceClocks
from fuel_passes.planning.topology import transfer_ns

if TYPE_CHECKING:
    from fuel_dialect.ops.control import RunOp
    from fuel_dialect.targets.description import Concurrency
    from fuel_dialect.targets.machine import Topology

RunNs = Callable[["RunOp"], int]
"""The nanoseconds that a run takes on its device."""

TransferNs = Callable[[str, str, int], int]
"""The nanoseconds that so many bytes take from one device to another."""


class Clocks(DeviceClocks):
    """
    Holds the clocks of the host and of emulated devices, since `reset`.

    `run_ns` and `transfer_ns` say what runs and transfers take. `concurrency` is that of all
    devices, or says that of each. The clocks hold for the calls of one thread.
    """

    def __init__(
        self,
        run_ns: RunNs,
        transfer_ns: TransferNs,
        concurrency: Concurrency | Callable[[str], Concurrency] = "stream",
    ):
        super().__init__(concurrency if callable(concurrency) else lambda device: concurrency)
        self.run_ns = run_ns
        self.transfer_ns = transfer_ns

    @classmethod
    def of(cls, topology: Topology, concurrency: Concurrency | None = None) -> Clocks:
        """
        Returns clocks that go by the prices of the planner.

        Without a `concurrency`, that of each device is what its target says.
        """
        prices = Prices(topology)

        def ns(source: str, target: str, bytes: int) -> int:
            return transfer_ns(topology, source, target, bytes)

        return cls(prices.run_ns, ns, concurrency or prices.concurrency)
