# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Finds the machine of a plan by name, in a file or on the module, checks it and prices its links.

The dataclasses are in `fuel_dialect.targets.machine`. Nothing here looks at the machine that it
runs on.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from itertools import pairwise
from math import ceil
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, NoneAttr, StringAttr
from xdsl.ir import Operation

from fuel_dialect.attributes import HOST, MAX_PRICE, TargetAttr, TopologyAttr
from fuel_dialect.errors import FuelPassError, TopologyChanged
from fuel_dialect.ops.control import RunOp
from fuel_dialect.targets.description import ByDtype, TargetDescription
from fuel_dialect.targets.machine import Device, Link, Topology, assumed
from fuel_dialect.targets.presets import PRESETS
from fuel_dialect.targets.registry import backends, description_of, serving
from fuel_passes.planning import topology_json

STAMP = "fuel.topology"
"""The attribute of a module that holds its topology."""

PLAN = "fuel.plan"
"""The attribute of a module that holds the generation of the topology it is planned for."""

DEFAULT = "cpu"


def resolve(module: ModuleOp, option: str | None = None) -> Topology:
    """
    The preset or JSON file that a pass was given; else the module's `fuel.topology`; else `cpu`.

    Raises `FuelPassError` for an unknown preset, a file that is no topology, a stamp that is none,
    a backend that no description covers, and devices that no path joins.
    """
    if option is not None:
        return read(option) if option.endswith(".json") else preset(option)
    stamped = module.attributes.get(STAMP)
    if stamped is None:
        return preset(DEFAULT)
    if not isinstance(stamped, TopologyAttr):
        raise FuelPassError(f"{STAMP} must be a #fuel.topology<...>, got {stamped}")
    return topology_of(stamped)


def preset(name: str) -> Topology:
    """
    The topology of a preset. Raises `FuelPassError` if there is none of that name.

    Pipelines of xDSL take text with a `+` in quotes alone; `cpu-h100` needs none.
    """
    known = PRESETS.get(name.replace("-", "+"))
    if known is None:
        raise FuelPassError(
            f"topology {name!r} is not known; the presets are {', '.join(PRESETS)}, also written "
            "with - for +; the name of a file ends in .json"
        )
    return known


def read(file: str) -> Topology:
    """The topology in a JSON file. Raises `FuelPassError` if it cannot be read or is none."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FuelPassError(f"topology file {file} cannot be read: {error}") from error
    from fuel_passes.planning.topology_schema import parse

    return validated(parse(text, file))


@cache
def topology_of(attribute: TopologyAttr) -> Topology:
    """
    The topology that an attribute stands for.

    Without a description it is the preset of that name and those targets, or else a machine with
    each device in a slot beside the host, with typical rates.
    """
    name, targets = attribute.label.data, tuple(attribute.targets)
    if not isinstance(attribute.description, NoneAttr):
        from fuel_passes.planning.topology_schema import from_attribute

        return validated(from_attribute(name, targets, attribute.description))
    known = PRESETS.get(name)
    if known is not None and known.targets == targets:
        return known
    return validated(assumed(name, targets))


def attribute_of(topology: Topology) -> TopologyAttr:
    """The attribute that stands for a topology; `topology_of` is its inverse."""
    plain = TopologyAttr.of(topology.name, topology.targets)
    if PRESETS.get(topology.name) == topology:
        return plain
    return TopologyAttr.of(topology.name, topology.targets, topology_json.to_attribute(topology))


def validated(topology: Topology) -> Topology:
    """The topology itself. Raises `FuelPassError` with what is wrong with it and what is not."""
    where = f"topology {topology.name!r}"
    names = [device.name for device in topology.devices]
    for target in topology.targets:
        if target.device.label not in names:
            raise FuelPassError(
                f"{where}: target {target} is on a device that it lacks; it has {', '.join(names)}"
            )
        _check_backend(topology, target)
    for device in topology.devices:
        _check_storage(topology, device)
    if HOST not in names:
        raise FuelPassError(
            f"{where} lacks the host, {HOST}, where arguments and results live; "
            f"it has {', '.join(names)}"
        )
    if not topology.targets:
        raise FuelPassError(f"{where} has no target; a plan needs at least one")
    for source in names:
        for target in names:
            path(topology, source, target)
    return topology


def _check_backend(topology: Topology, target: TargetAttr) -> None:
    """Raises `FuelPassError` unless the kind of device can have the backend, with such rates."""
    where, name = f"topology {topology.name!r}", target.backend.data
    described = description_of(name)
    if described is None:
        raise FuelPassError(
            f"{where}: no backend {name!r} is described; there are {', '.join(backends())}"
        )
    kind = target.device.kind.data
    if kind not in described.runs_on:
        fitting = [fit.name for fit in serving(kind)]
        raise FuelPassError(
            f"{where}: the backend {name!r} cannot run on the device {target.device.label}; it "
            f"runs on {', '.join(described.runs_on)}; what runs on {kind} is "
            f"{', '.join(fitting) or 'no backend'}"
        )
    for dtype, _ in _stated_rates(topology, target):
        if dtype not in described.dtypes:
            raise FuelPassError(
                f"{where}: rates of {target} for {dtype}, of which it has no kernels; it serves "
                f"{', '.join(described.dtypes)}"
            )


def _stated_rates(topology: Topology, target: TargetAttr) -> ByDtype:
    """The rates of element types that a topology itself states of a target."""
    found = (rates.by_dtype for rates in topology.rates if rates.target == target)
    return next(found, None) or ()


def _check_storage(topology: Topology, device: Device) -> None:
    """Returns True if a device has memory of its own, or shares that of one that has."""
    owner = topology.device(device.storage)
    if owner is not None and owner.storage == owner.name:
        return
    owners = ", ".join(d.name for d in topology.devices if d.storage == d.name)
    why = "which is no device of it"
    if owner is not None:
        why = f"which itself shares that of {owner.storage}"
    raise FuelPassError(
        f"topology {topology.name!r}: {device.name} shares the storage of {device.storage}, {why}; "
        f"memory of their own have {owners or 'none'}"
    )


def target_description(topology: Topology, target: TargetAttr) -> TargetDescription:
    """Returns the description of a target on a machine. Raises `FuelPassError` for no backend."""
    typical = description_of(target.backend.data)
    if typical is None:
        raise FuelPassError(
            f"no backend {target.backend.data!r} is described; there are {', '.join(backends())}"
        )
    return topology.adapt(target, typical)


def as_planned(run: RunOp, backend: str) -> TargetDescription | None:
    """
    Returns the description of a backend on the device of a run, with the bounds of that device.

    The machine is the one that the module of the run states. None if nothing describes the backend.
    """
    typical = description_of(backend)
    top: Operation = run
    while (parent := top.parent_op()) is not None:
        top = parent
    if typical is None or not isinstance(top, ModuleOp):
        return typical
    return resolve(top).adapt(run.target, typical)


def path(topology: Topology, source: str, target: str) -> tuple[str, ...]:
    """
    The devices that a value passes on its way, both ends included.

    One device where they are the same; two where they share storage or a link joins them; three
    through the host. Raises `FuelPassError` for an unknown device and a pair that nothing joins.
    """
    if source == target:
        _device(topology, source)
        return (source,)
    ends = [_device(topology, name) for name in (source, target)]
    if ends[0].storage == ends[1].storage or link_between(topology, source, target):
        return source, target
    if (
        topology.device(HOST)
        and link_between(topology, source, HOST)
        and link_between(topology, HOST, target)
    ):
        return source, HOST, target
    raise FuelPassError(
        f"topology {topology.name!r} has no way from {source} to {target}: neither a direct link "
        f"nor links through {HOST}; its links are "
        f"{', '.join(f'{link.source} to {link.target}' for link in topology.links) or 'none'}"
    )


def link_between(topology: Topology, source: str, target: str) -> Link | None:
    """The first link from the storage of one device to that of another."""
    left, right = _device(topology, source).storage, _device(topology, target).storage
    for link in topology.links:
        if _device(topology, link.source).storage != left:
            continue
        if _device(topology, link.target).storage == right:
            return link
    return None


def _device(topology: Topology, name: str) -> Device:
    device = topology.device(name)
    if device is None:
        raise FuelPassError(
            f"topology {topology.name!r} has no device {name}; "
            f"it has {', '.join(d.name for d in topology.devices)}"
        )
    return device


def transfer_ns(topology: Topology, source: str, target: str, bytes: int) -> int:
    """
    Nanoseconds until a value of so many bytes is on another device; 0 where storage is shared.

    The hops of a path follow one another.
    """
    way = path(topology, source, target)
    return min(sum(hop_ns(topology, a, b, bytes) for a, b in pairwise(way)), MAX_PRICE)


def hop_ns(topology: Topology, source: str, target: str, bytes: int) -> int:
    """Nanoseconds of one hop of a path."""
    if _device(topology, source).storage == _device(topology, target).storage:
        return 0
    link = link_between(topology, source, target)
    assert link is not None
    return link_ns(link, bytes)


def link_ns(link: Link, bytes: int) -> int:
    """Nanoseconds of one transfer over a link."""
    return min(link.latency_ns + ceil(bytes / link.bytes_per_ns), MAX_PRICE)


def generation(topology: Topology) -> str:
    """A hash of everything that a topology says: 16 hexadecimal digits."""
    text = topology_json.dump(topology)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def stamp_plan(module: ModuleOp, topology: Topology) -> None:
    """Note on a module which topology it is planned for."""
    module.attributes[PLAN] = StringAttr(generation(topology))


def check_plan(module: ModuleOp, topology: Topology) -> None:
    """
    Nothing if a module is not planned, or planned for this topology.

    Raises `TopologyChanged` if it is planned for another.
    """
    made_for = planned_generation(module)
    if made_for is not None:
        check_generation(made_for, topology)


def planned_generation(module: ModuleOp) -> str | None:
    """Returns the generation of the topology that a module is planned for; None if for none."""
    made_for = module.attributes.get(PLAN)
    if made_for is None:
        return None
    return made_for.data if isinstance(made_for, StringAttr) else str(made_for)


def check_generation(made_for: str, topology: Topology) -> None:
    """Raises `TopologyChanged` if a plan for a generation is no plan for a topology."""
    now = generation(topology)
    if made_for == now:
        return
    raise TopologyChanged(
        f"the plan was made for the topology of generation {made_for}, but {topology.name!r} is "
        f"{now}; run fuel-optimize again to plan for it"
    )
