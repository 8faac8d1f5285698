# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Finds the additions of other packages by entry point; `docs/plugins.md` shows such a package.

| group | an entry point gives |
|---|---|
| `fuel.references` | a mapping from op classes to functions of arrays, as those of `reference/` |
| `fuel.kernels` | a mapping from op classes to the rules of an emitter; its name says of which |
| `fuel.kinds` | the `KernelKind` of the kind of kernel of its name (`fuel_dialect.kinds`) |
| `fuel.targets` | the `TargetDescription` of the target of its name, which names its code |
| `fuel.patterns` | a function that makes recognition patterns (`fuel-recognize`) |
| `fuel.pathfinders` | a `fuel_passes.forking.plugins.Pathfinder` (`fuel-find-paths`) |
| `fuel.pruners` | a `fuel_passes.forking.plugins.Pruner` (`fuel-find-paths`) |
| `fuel.selectors` | a `fuel_runtime.picker.selectors.interface.Selector` |

Entry points are looked up once in a process, when something first asks; what they name is imported
when it is needed. Their order is that of their names, then of their packages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from xdsl.ir import Operation

from fuel_dialect.errors import FuelError, PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from xdsl.ir import Dialect

T = TypeVar("T")

REFERENCES = "fuel.references"
KERNELS = "fuel.kernels"
KINDS = "fuel.kinds"
TARGETS = "fuel.targets"
PATTERNS = "fuel.patterns"
PATHFINDERS = "fuel.pathfinders"
PRUNERS = "fuel.pruners"
SELECTORS = "fuel.selectors"

GROUPS = (REFERENCES, KERNELS, KINDS, TARGETS, PATTERNS, PATHFINDERS, PRUNERS, SELECTORS)

UNIVERSE = "xdsl.universe"

SHARED = (REFERENCES, KERNELS)
"""Groups in which several packages may use one name: their mappings are joined."""


@dataclass(frozen=True)
class Plugin:
    """An entry point, and the package that declares it."""

    entry: EntryPoint
    package: str

    @property
    def name(self) -> str:
        return self.entry.name

    def __str__(self) -> str:
        return f"{self.entry.group} {self.name!r} of package {self.package}"

    def load(self) -> object:
        """Imports the object that the entry point names. Raises `PluginError` if it cannot."""
        try:
            return self.entry.load()
        except Exception as error:
            raise PluginError(
                f"{self} cannot be imported: {type(error).__name__}: {error}"
            ) from error

    def load_as(self, kind: type[T]) -> T:
        """Imports an object of a kind. Raises `PluginError` if it is of another kind."""
        value = self.load()
        if not isinstance(value, kind):
            raise PluginError(f"{self} must be a {kind.__name__}, got {value!r}")
        return value


@cache
def _all() -> Mapping[str, tuple[Plugin, ...]]:
    """The entry points of each group, from one look at what is installed."""
    from importlib.metadata import entry_points

    installed = entry_points()
    return {group: _sorted(installed.select(group=group)) for group in (*GROUPS, UNIVERSE)}


def _sorted(entries: Iterable[EntryPoint]) -> tuple[Plugin, ...]:
    found = [Plugin(e, e.value if e.dist is None else e.dist.name) for e in entries]
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.package)))


def found(group: str) -> tuple[Plugin, ...]:
    """The entry points of a group. Raises `PluginError` where two packages use one name."""
    plugins = _all()[group]
    for first, second in pairwise(plugins):
        if first.name == second.name and group not in SHARED:
            raise PluginError(
                f"{first} and that of package {second.package} have the same name; "
                "uninstall one of them"
            )
    return plugins


class Described(Protocol):
    """A description that another package gives under its own name."""

    @property
    def name(self) -> str: ...


D = TypeVar("D", bound=Described)


def described(group: str, name: str, kind: type[D]) -> D | None:
    """
    Returns the description of a name in a group; None if no package gives one.

    Raises `PluginError` for an entry point that names no description of its name.
    """
    for plugin in found(group):
        if plugin.name != name:
            continue
        value = plugin.load_as(kind)
        if value.name != name:
            raise PluginError(f"{plugin} describes {value.name!r}; it must have its name")
        return value
    return None


def named(path: str) -> Callable[..., Any]:
    """
    Returns what a string `module:attribute` names.

    Raises `ModuleNotFoundError` for a package that is not installed, and `PluginError` for a string
    of another package that names nothing in a package that is.
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        absent = isinstance(error, ModuleNotFoundError) and "." not in (error.name or ".")
        if absent or module.startswith("fuel_"):
            raise
        raise PluginError(
            f"{path!r}, which the package {module.partition('.')[0]} gives for a kind of kernel or "
            f"a target, names nothing: {error}"
        ) from error


def function_named(path: str) -> Callable[..., Any]:
    """Returns the function that a string names; the mistakes of one of a package name it."""
    found = named(path)
    return found if path.startswith("fuel_") else guarded(path, found)


def guarded(what: str, function: Callable[..., Any], where: str = "") -> Callable[..., Any]:
    """Returns a function whose errors, but for those of fuel, are a `PluginError` that names it."""

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except FuelError:
            raise
        except Exception as error:
            raise PluginError(f"{what} failed{where}: {type(error).__name__}: {error}") from error

    return call


# Ops.


def is_outside(op: type[Operation]) -> bool:
    """Returns True if another package defines an op."""
    return not op.name.startswith("fuel.")


def dialects() -> Iterator[tuple[str, Callable[[], Dialect]]]:
    """The dialects of packages that add something to fuel, by their xDSL universe."""
    packages = {plugin.package for group in GROUPS for plugin in _all()[group]}
    universes = [plugin for plugin in _all()[UNIVERSE] if plugin.package in packages]
    if not universes:
        return
    from xdsl.universe import Universe

    owners: dict[str, Plugin] = {}
    for plugin in universes:
        for name, factory in plugin.load_as(Universe).all_dialects.items():
            if name in owners or name in ("builtin", "func", "fuel"):
                owner = owners[name].package if name in owners else "fuel"
                raise PluginError(f"{plugin}: the dialect {name!r} is there already, from {owner}")
            owners[name] = plugin
            yield name, factory


# Tables.


@cache
def table(group: str, name: str | None = None) -> Mapping[type[Operation], Any]:
    """
    The joined mappings of a group, or of those of its entry points that have a name.

    Raises `PluginError` for what is no mapping from op classes, and an op that two of them have.
    """
    joined: dict[type[Operation], Any] = {}
    owners: dict[type[Operation], Plugin] = {}
    for plugin in found(group):
        if name is not None and plugin.name != name:
            continue
        for op, value in _mapping(plugin).items():
            if op in owners:
                raise PluginError(f"{plugin} has {op.name}, which {owners[op]} has too")
            owners[op], joined[op] = plugin, value
            if group == KERNELS:
                joined[op] = guarded(str(plugin), value, f" for {op.name}")
    return joined


def _mapping(plugin: Plugin) -> Mapping[type[Operation], Any]:
    given = cast("Mapping[object, object]", plugin.load_as(Mapping))
    for op, value in given.items():
        if not (isinstance(op, type) and issubclass(op, Operation)) or not callable(value):
            raise PluginError(f"{plugin} must map op classes to functions, got {op!r}: {value!r}")
    return cast("Mapping[type[Operation], Any]", given)


def with_plugins(
    group: str, name: str | None, stock: Mapping[type[Operation], T]
) -> Mapping[type[Operation], T]:
    """
    A table of fuel and what other packages add to it.

    Raises `PluginError` where they would replace an entry.
    """
    added = table(group, name)
    twice = next((op for op in added if op in stock), None)
    if twice is not None:
        owners = (p for p in found(group) if name in (None, p.name) and twice in _mapping(p))
        raise PluginError(f"{next(owners)} has {twice.name}, which fuel has already")
    return {**stock, **added} if added else stock


def kernels(target: str, stock: Mapping[type[Operation], T]) -> Mapping[type[Operation], T]:
    """
    The rules of an emitter by op class: its own, and those of other packages for it.

    `target` is the name that their entry points in `fuel.kernels` have.
    """
    return with_plugins(KERNELS, target, stock)


def has_kernel(op: type[Operation], tables: tuple[str, ...]) -> bool:
    """Returns True if a package has a rule for an op in one of the tables of a target."""
    return any(op in table(KERNELS, name) for name in tables)
