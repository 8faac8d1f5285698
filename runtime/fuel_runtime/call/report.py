# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports what an executable is made of, and which arm of each branch it runs and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from fuel_passes.finishing.overlap_record import Overlap
from fuel_passes.memory.record import DeviceMemory, MemoryPlan


@dataclass(frozen=True)
class DeviceReport:
    """A device that was asked for; `absent` says why it is not there, and is empty if it is."""

    device: str
    absent: str = ""
    identity: str = ""
    """The name of the hardware."""
    emulated: bool = False
    targets: tuple[str, ...] = ()
    """The code generators that serve it; the text names them where there is more than one."""


@dataclass(frozen=True)
class RunReport:
    """One run of a route: where it is, and what it holds."""

    run: str
    target: str
    kernels: int
    launches: int
    """On a device, what is launched: a kernel may take several."""


@dataclass(frozen=True)
class TransferReport:
    """One transfer of a route, and what it has moved in all calls so far."""

    value: str
    """The name of an argument, or what gives the value."""
    type: str
    origin: str
    """The device that the value is on: `caller` for an argument, which comes as it is given."""
    to: str
    bytes: int
    moved_bytes: int = 0


@dataclass(frozen=True)
class StateReport:
    """A member of the state, where it lives, and how a call updates it (`driver.Update`)."""

    name: str
    type: str
    device: str
    update: str


UPDATES = {
    "in place": "updated in place",
    "new": "changes places with a new buffer in each call",
    "none": "never changes",
}


@dataclass(frozen=True)
class ArmReport:
    """One arm; `why_not` is empty for the arm that is chosen."""

    arm: int
    target: str
    price_ns: int | None
    origin: str
    chosen: bool
    why_not: str
    measured_ns: int | None = None
    """The robust mean of its times on this hardware; None where nobody has measured it."""


@dataclass(frozen=True)
class BranchReport:
    """One decision by its path, such as `d3/1/d0`; `arm` is None if no arm of it can run here."""

    decision: str
    arm: int | None
    why: str
    on_route: bool
    """True if a call comes to the branch: it does not if another arm around it is chosen."""
    arms: tuple[ArmReport, ...]


@dataclass(frozen=True)
class Change:
    """A change of arm of a decision, or its first choice, where `before` is None."""

    decision: str
    before: int | None
    arm: int
    reason: str
    at_s: float
    """Seconds after the program was compiled."""
    why_not: Mapping[int, str] = field(default_factory=dict[int, str])
    """The reason against each of the other arms then."""


@dataclass(frozen=True)
class Fault:
    """An arm that a call left because a device failed."""

    decision: str
    arm: int
    device: str
    error: str
    at_s: float
    """Seconds after the program was compiled."""


@dataclass(frozen=True)
class ArmCheck:
    """An arm that ran on the values of another: the worst of all calls that checked it."""

    decision: str
    arm: int
    against: int
    """The arm that the calls took."""
    worst: float
    """The largest difference, relative to the values; 0 where all bits are equal."""
    allowed: float
    error: str = ""
    """The error of an arm that could not run."""
    calls: int = 1


@dataclass(frozen=True)
class PreparedReport:
    """A tensor that was computed once, when weights were bound."""

    name: str
    type: str
    bytes: int
    function: str
    """The function of the module that gives it."""


@dataclass(frozen=True)
class Report:
    """Everything about an executable that its text form prints; counts are of what was lowered."""

    entry: str
    signature: str
    asked: str
    devices: tuple[DeviceReport, ...]
    threads: int
    runs: int
    runs_on_route: int
    kernels: int
    kernels_on_route: int
    workspace_bytes: int
    """Memory that one call at a time takes beside arguments, results and what runs hand on."""
    weights: tuple[str, ...]
    branches: tuple[BranchReport, ...]
    route: tuple[RunReport, ...] = ()
    """The runs of a call, in order."""
    transfers: tuple[TransferReport, ...] = ()
    """The transfers of a call, in order."""
    prepared: tuple[PreparedReport, ...] = ()
    """Tensors that were computed from weights once."""
    state: tuple[StateReport, ...] = ()
    """The members of a state, in order."""
    memory: tuple[DeviceMemory, ...] = ()
    """The memory that calls take, by device, whichever arms run."""
    overlap: Overlap | None = None
    """The simulated time of a call by the first arms; None for a program on one device."""
    dropped: tuple[str, ...] = ()
    """Arms that planning left out so that decisions stay few, each with its price and why."""
    history: tuple[Change, ...] = ()
    """The last changes of arm."""
    faults: tuple[Fault, ...] = ()
    """The last faults of devices that calls survived."""
    checks: tuple[ArmCheck, ...] = ()
    """The arms that `check_arms` compared."""

    @property
    def transfer_bytes(self) -> int:
        """Bytes that a call moves if its arguments come from the host."""
        return sum(t.bytes for t in self.transfers)

    @property
    def moved_bytes(self) -> int:
        """Bytes that all calls have moved so far."""
        return sum(t.moved_bytes for t in self.transfers)

    def to_json(self) -> str:
        """The report as a JSON object with the names of the fields."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _transfer_lines(self) -> Iterator[str]:
        if not self.transfers:
            return
        yield (
            f"transfers   {len(self.transfers)} a call, {self.transfer_bytes:,} bytes; "
            f"{self.moved_bytes:,} bytes in all calls so far"
        )
        yield from map(_transfer_line, self.transfers)

    def _prepared_lines(self) -> Iterator[str]:
        if self.prepared:
            total = sum(each.bytes for each in self.prepared)
            yield f"prepared    {len(self.prepared)} once, {total:,} bytes"
            yield from (f"  {p.name}: {p.type} by @{p.function}" for p in self.prepared)

    def _lines(self) -> Iterator[str]:
        yield self.signature
        yield f"devices     asked for {self.asked}, {self.threads} threads"
        yield from map(_device_line, self.devices)
        yield f"runs        {self.runs_on_route} a call, of {self.runs} lowered"
        yield from map(_run_line, self.route)
        yield f"kernels     {self.kernels_on_route} a call, of {self.kernels} lowered"
        yield from self._transfer_lines()
        if self.overlap is not None:
            yield f"at once     {self.overlap}"
        if self.memory:
            yield str(MemoryPlan(self.memory))
        yield f"workspace   {self.workspace_bytes:,} bytes"
        yield f"weights     {len(self.weights) or 'none'}"
        yield from (f"  {weight}" for weight in self.weights)
        yield from self._prepared_lines()
        if self.state:
            yield f"state       {_count(len(self.state), 'member', 'members')}"
            yield from map(_state_line, self.state)
        yield f"branches    {len(self.branches) or 'none'}"
        for branch in self.branches:
            yield from _branch_lines(branch)
        if self.dropped:
            yield f"dropped     {_count(len(self.dropped), 'arm', 'arms')}"
            yield from (f"  {said}" for said in self.dropped)
        changes = [change for change in self.history if change.before is not None]
        if changes:
            yield f"changes     {_count(len(changes), 'arm', 'arms')}"
            yield from map(_change_line, changes)
        if self.faults:
            yield f"faults      {_count(len(self.faults), 'arm left', 'arms left')}"
            yield from map(_fault_line, self.faults)
        if self.checks:
            yield f"checks      {_count(len(self.checks), 'arm', 'arms')} compared"
            yield from map(_check_line, self.checks)


def _device_line(device: DeviceReport) -> str:
    if device.absent:
        return f"  {device.device}: absent, {device.absent}"
    how = "emulated" if device.emulated else "present"
    identity = f", {device.identity}" if device.identity else ""
    targets = f", targets {', '.join(device.targets)}" if len(device.targets) > 1 else ""
    return f"  {device.device}: {how}{identity}{targets}"


def _run_line(run: RunReport) -> str:
    launches = f", {_count(run.launches, 'launch', 'launches')}" if run.launches else ""
    return f"  {run.run} on {run.target}: {_count(run.kernels, 'kernel', 'kernels')}{launches}"


def _transfer_line(transfer: TransferReport) -> str:
    where = f"{transfer.origin} to {transfer.to}"
    return f"  {transfer.value}: {transfer.type}, {where}, {transfer.bytes:,} bytes"


def _state_line(member: StateReport) -> str:
    return f"  {member.name}: {member.type} on {member.device}, {UPDATES[member.update]}"


def _change_line(change: Change) -> str:
    where = f"arm {change.before} to arm {change.arm}"
    return f"  {change.decision}: {where} after {change.at_s:.3f} s: {change.reason}"


def _fault_line(fault: Fault) -> str:
    where = f"arm {fault.arm} on {fault.device}"
    return f"  {fault.decision}: {where} after {fault.at_s:.3f} s: {fault.error}"


def _check_line(check: ArmCheck) -> str:
    found = f"could not run: {check.error}"
    if not check.error:
        found = f"differs by {check.worst:.2g} at most, {check.allowed:.2g} is allowed"
    calls = _count(check.calls, "call", "calls")
    return f"  {check.decision}: arm {check.arm} and arm {check.against}, {calls}: {found}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _branch_lines(branch: BranchReport) -> Iterator[str]:
    picked = "no arm" if branch.arm is None else f"arm {branch.arm}"
    off = "" if branch.on_route else ", not on the route"
    yield f"  {branch.decision}: {picked}, {branch.why}{off}"
    for arm in branch.arms:
        price = "no price" if arm.price_ns is None else f"{arm.price_ns:,} ns"
        if arm.measured_ns is not None:
            price += f", measured {arm.measured_ns:,} ns"
        mark = "*" if arm.chosen else " "
        why_not = f": {arm.why_not}" if arm.why_not else ""
        yield f"   {mark} arm {arm.arm} on {arm.target}, {price}, from {arm.origin}{why_not}"
