# SPDX-License-Identifier: MIT OR Apache-2.0
"""Packages that add something to fuel and go wrong: each time one error that names the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect import plugins
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import FuelPassError, PluginError
from fuel_dialect.ops.base import ConstOp
from fuel_dialect.ops.elementwise import ReluOp
from fuel_dialect.targets.registry import backends, description_of
from fuel_passes.forking.converge import ConvergePass
from fuel_passes.forking.find_paths import FindPathsPass
from fuel_passes.forking.fork_variants import ForkVariantsPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.recognize import RecognizePass
from fuel_passes.legalize.strip_plan import StripPlanPass
from fuel_passes.pipeline import OptimizePass

PROGRAM = """\
func.func @main(%x: tensor<512x1024xf32>) -> tensor<512x1024xf32> {
  %a = fuel.exp %x : tensor<512x1024xf32>
  %b = fuel.tanh %a : tensor<512x1024xf32>
  func.return %b : tensor<512x1024xf32>
}
"""

USERS = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.relu %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.exp %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 3 origin "finder: found" {
    %0 = fuel.tanh %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
"""

PASSES = """
from dataclasses import dataclass
from xdsl.dialects.builtin import ArrayAttr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import RewritePattern
from fuel_dialect.attributes import ArmAttr
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_dialect.ops.elementwise import AddOp, CastOp, ExpOp, ReluOp
from fuel_dialect.tensors import tensor
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from fuel_passes.forking.plugins import Pathfinder, Pruner

LOG = []

@dataclass(frozen=True)
class Renamer(ModulePass):
    name = "renamer"
    origin: str = ""
    def apply(self, ctx, op):
        for branch in [o for o in op.walk() if isinstance(o, BranchOp)]:
            first, *rest = branch.arms
            arm = rest[-1] if rest else first
            new = ArmAttr.of(arm.target, arm.price_ns, self.origin or arm.origin.data)
            branch.add_region(branch.arm_regions[-1].clone())
            branch.properties["arms"] = ArrayAttr([*branch.arms, new])

@dataclass(frozen=True)
class Dropper(ModulePass):
    name = "dropper"
    def apply(self, ctx, op):
        for branch in [o for o in op.walk() if isinstance(o, BranchOp)]:
            branch.detach_region(branch.arm_regions[-1]).erase()
            branch.properties["arms"] = ArrayAttr(branch.arms.data[:-1])

@dataclass(frozen=True)
class Logger(ModulePass):
    name = "logger"
    word: str = ""
    def apply(self, ctx, op):
        LOG.append(self.word)

class OnExp(RewritePattern):
    # Does `act` to each exp, and to each kernel.
    def __init__(self, act):
        self.act = act
    def match_and_rewrite(self, op, rewriter):
        if isinstance(op, (ExpOp, KernelOp)):
            self.act(op, rewriter)

def feed_itself(op, rewriter):
    op.operands = [op.results[0]]

def detach(op, rewriter):
    op.detach()

def clear(op, rewriter):
    op.properties.clear()

def retype(op, rewriter):
    half = CastOp.make(op.operands[0], declared=[tensor(op.results[0].type.get_shape(), "f16")])
    if op.results[0].first_use is not None:
        rewriter.insert(half)
        op.results[0].replace_all_uses_with(half.results[0])

def change_signature(op, rewriter):
    while not isinstance(op, FuncOp):
        op = op.parent_op()
    op.properties["sym_name"] = StringAttr("other")

def stir(op, rewriter):
    rewriter.notify_op_modified(op)

def grow(op, rewriter):
    rewriter.replace(op, ExpOp.make(op.operands[0]))

def leave(op, rewriter):
    raise SystemExit(3)

def stop(op, rewriter):
    raise GeneratorExit

def recurse(op, rewriter):
    recurse(op, rewriter)

def meddle(act):
    return lambda: [OnExp(act)]

def meddler(act):
    return Pathfinder("fuel-fork-variants", lambda planning: OnExp(act))

for _act in (
    feed_itself, detach, clear, retype, change_signature, stir, grow, leave, stop, recurse
):
    globals()[_act.__name__ + "_p"] = meddle(_act)
    globals()[_act.__name__ + "_f"] = meddler(_act)

class Raiser(RewritePattern):
    def match_and_rewrite(self, op, rewriter):
        raise KeyError("no luck")

def logged(word):
    return lambda planning: Logger(word)

ADDER = Pathfinder("fuel-fork-variants", lambda planning: Renamer("finder: twice"))
STRANGER = Pathfinder("fuel-fork-variants", lambda planning: Renamer("user"))
TAKER = Pathfinder("fuel-fork-variants", lambda planning: Dropper())
RAISER = Pathfinder("fuel-fork-variants", lambda planning: Raiser())
NOTHING = Pathfinder("fuel-fork-variants", lambda planning: None)
LATE = Pathfinder("fuel-order", lambda planning: Raiser())
FIRST = Pathfinder("fuel-fork-variants", logged("first"))
SECOND = Pathfinder("fuel-fork-variants", logged("second"))
THIRD = Pathfinder("fuel-fork-placements", logged("third"))
PRUNED = Pruner(logged("prune"))
GROWER = Pruner(lambda planning: Renamer())
CUTTER = Pruner(lambda planning: Dropper())
PATTERNS = [Raiser()]
def raisers():
    return [Raiser()]
def words():
    return ["relu"]
TABLE = {ReluOp: lambda *_: None}
OTHER = {AddOp: lambda *_: None}
STRINGS = {"relu": len}
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install packages, given as `name={group: {entry: object}}`, all with one module."""
    (tmp_path / "bad_plugin.py").write_text(PASSES)

    def add(**packages: dict[str, dict[str, str]]) -> None:
        for package, groups in packages.items():
            info = tmp_path / f"{package}-1.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
            lines: list[str] = []
            for group, entries in groups.items():
                lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
            (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        monkeypatch.syspath_prepend(tmp_path)
        forget()

    yield add
    monkeypatch.undo()
    forget()


def forget() -> None:
    for cached in (plugins._all, plugins.table, description_of):  # pyright: ignore[reportPrivateUsage]
        cached.cache_clear()


def pathfinder(value: str) -> dict[str, dict[str, str]]:
    return {plugins.PATHFINDERS: {"finder": f"bad_plugin:{value}"}}


def pruner(value: str) -> dict[str, dict[str, str]]:
    return {plugins.PRUNERS: {"pruner": f"bad_plugin:{value}"}}


def forked() -> ModuleOp:
    module = parse_module(PROGRAM)
    FormKernelsPass().apply(make_context(), module)
    ForkVariantsPass().apply(make_context(), module)
    return module


def optimize(plugins: bool = True, device: str | None = None) -> ModuleOp:
    module = parse_module(PROGRAM)
    OptimizePass(variants="keep", plugins=plugins, device=device).apply(make_context(), module)
    return module


MISTAKES = [
    (pathfinder("MISSING"), "cannot be imported: AttributeError: .*'MISSING'"),
    ({plugins.PATHFINDERS: {"finder": "no_module:X"}}, "cannot be imported: ModuleNotFoundError"),
    (pathfinder("PRUNED"), "must be a Pathfinder, got Pruner"),
    (pathfinder("LATE"), "runs after fuel-fork-variants or fuel-fork-placements, not 'fuel-order'"),
    (pathfinder("RAISER"), "failed: KeyError: 'no luck'"),
    (pathfinder("NOTHING"), "must make a ModulePass or a RewritePattern, not None"),
    (pathfinder("STRANGER"), "added an arm of d0 whose origin is 'user'; it must begin with"),
    (pathfinder("TAKER"), "dropped an arm of d0 on cpu/numpy; it may only add"),
    (pruner("ADDER"), "must be a Pruner, got Pathfinder"),
    (pruner("GROWER"), "added an arm of d0 on cpu/numpy; it may only drop"),
]


@pytest.mark.parametrize(("groups", "message"), MISTAKES, ids=[m for _, m in MISTAKES])
def test_a_pass_that_goes_wrong_is_named(
    install: Install, groups: dict[str, dict[str, str]], message: str
) -> None:
    install(wrong=groups)
    (group,) = groups
    (name,) = groups[group]
    with pytest.raises(PluginError, match=f"^{group} '{name}' of package wrong {message}"):
        FindPathsPass().apply(make_context(), forked())
    assert "exp" in str(optimize(plugins=False))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("PATTERNS", "must be a function that gives patterns, got "),
        ("words", "must give RewritePatterns, got 'relu'"),
        ("forget", "cannot be imported: AttributeError"),
        ("raisers", "failed: KeyError: 'no luck'"),
    ],
)
def test_a_pattern_that_goes_wrong_is_named(install: Install, value: str, message: str) -> None:
    install(wrong={plugins.PATTERNS: {"p": f"bad_plugin:{value}"}})
    with pytest.raises(PluginError, match=f"^fuel.patterns 'p' of package wrong {message}"):
        RecognizePass().apply(make_context(), parse_module(PROGRAM))


WRONG = "leaves a module that is wrong: "
RUINS = [
    ("feed_itself", WRONG + ".* before it is made"),
    ("detach", WRONG),
    ("clear", WRONG + "|failed: "),
    ("retype", WRONG),
    ("change_signature", "changed what a function takes or gives"),
    ("stir", "does not end: it has matched 1024 times"),
    ("grow", "does not end: it has matched 1024 times"),
    ("leave", "failed: SystemExit: 3"),
    ("stop", "failed: GeneratorExit"),
    ("recurse", "failed: RecursionError"),
]


@pytest.mark.parametrize(("act", "message"), RUINS)
@pytest.mark.parametrize("kind", ["p", "f"])
def test_what_a_pattern_ruins_is_undone_and_named(
    install: Install, kind: str, act: str, message: str
) -> None:
    if (kind, act) in {("p", "clear"), ("f", "retype"), ("f", "stir"), ("f", "grow")}:
        return  # an `exp` has no properties; a pathfinder's pattern sees each op once
    group, name = (plugins.PATTERNS, "p") if kind == "p" else (plugins.PATHFINDERS, "finder")
    install(wrong={group: {name: f"bad_plugin:{act}_{kind}"}})
    module = parse_module(PROGRAM) if kind == "p" else forked()
    before = str(module)
    with pytest.raises(PluginError, match=f"^{group} '{name}' of package wrong ({message})"):
        (RecognizePass() if kind == "p" else FindPathsPass()).apply(make_context(), module)
    assert str(module) == before
    with pytest.raises(PluginError, match=f"^{group} '{name}' of package wrong ({message})"):
        optimize()


def test_a_pruner_leaves_a_persons_arms(install: Install) -> None:
    install(wrong=pruner("CUTTER"))
    module = parse_module(USERS.replace(' price 3 origin "finder: found"', ""))
    with pytest.raises(PluginError, match="dropped an arm of d0 that a person wrote"):
        FindPathsPass().apply(make_context(), module)


def test_two_packages_with_one_name(install: Install) -> None:
    install(one=pathfinder("FIRST"), other=pathfinder("SECOND"))
    with pytest.raises(PluginError, match="of package one and that of package other have the same"):
        optimize()
    assert "exp" in str(optimize(plugins=False))


def test_tables_are_joined_and_no_op_is_in_two(install: Install) -> None:
    rules = {"one": "bad_plugin:TABLE"}
    install(
        a={plugins.KERNELS: {"t": "bad_plugin:TABLE", "u": "bad_plugin:STRINGS"}},
        b={plugins.KERNELS: {"t": "bad_plugin:OTHER"}, plugins.REFERENCES: rules},
        c={plugins.REFERENCES: {"two": "bad_plugin:TABLE"}},
    )
    assert [op.name for op in plugins.kernels("t", {})] == ["fuel.relu", "fuel.add"]
    assert list(plugins.kernels("elsewhere", {ConstOp: len})) == [ConstOp]
    with pytest.raises(PluginError, match=r"'t' of package a has fuel\.relu, which fuel has"):
        plugins.kernels("t", {ReluOp: len})
    with pytest.raises(PluginError, match="'u' of package a must map op classes to functions"):
        plugins.kernels("u", {})
    with pytest.raises(PluginError, match=r"'two' of package c has fuel.relu, which .*package b"):
        plugins.table(plugins.REFERENCES)


def test_a_target_has_the_name_of_its_entry(install: Install) -> None:
    value = "fuel_dialect.targets.numpy:DESCRIPTION"
    install(wrong={plugins.TARGETS: {"mine": value, "other": "bad_plugin:TABLE"}})
    assert backends()[-2:] == ("mine", "other")
    assert description_of("theirs") is None
    with pytest.raises(PluginError, match="'mine' of package wrong describes 'numpy'"):
        description_of("mine")
    with pytest.raises(PluginError, match=r"'other' .* must be a TargetDescription"):
        description_of("other")


def test_a_dialect_that_is_there_already(install: Install) -> None:
    universe = {"again": "fuel_dialect.universe:FUEL_UNIVERSE"}
    install(wrong={plugins.UNIVERSE: universe, **pruner("PRUNED")})
    with pytest.raises(PluginError, match="package wrong: the dialect 'fuel' is there already"):
        make_context()


def test_the_order_is_that_of_the_names_and_pruners_follow_each(install: Install) -> None:
    values = {"c": "THIRD", "b": "SECOND", "a": "FIRST"}
    entries = {name: f"bad_plugin:{value}" for name, value in values.items()}
    install(fine={plugins.PATHFINDERS: entries, **pruner("PRUNED")})
    optimize()
    import bad_plugin  # pyright: ignore[reportMissingImports]

    steps = ["prune", "first", "prune", "second", "prune"]
    assert bad_plugin.LOG == [*steps, "prune", "third", "prune"]
    bad_plugin.LOG.clear()
    optimize(plugins=False)
    assert bad_plugin.LOG == []
    optimize(device="cpu")
    assert bad_plugin.LOG == steps
    bad_plugin.LOG.clear()


def test_an_unknown_step() -> None:
    with pytest.raises(FuelPassError, match=r"after is fuel-fork-variants or .*, not 'fuel-order'"):
        FindPathsPass(after="fuel-order").apply(make_context(), forked())  # pyright: ignore[reportArgumentType]


def test_strip_plan_takes_added_arms_out_of_a_persons_branch() -> None:
    module = parse_module(USERS)
    StripPlanPass().apply(make_context(), module)
    module.verify()
    text = str(module)
    assert text.count("arm on") == 2
    assert "tanh" not in text
    StripPlanPass().apply(make_context(), module)
    assert str(module) == text


def test_arms_added_to_a_persons_branch_count_and_go_first() -> None:
    arm = USERS[
        USERS.index('  arm on #fuel.target<cpu, "numpy"> price') : USERS.index("  func.ret")
    ]
    dearer = arm.replace("price 3", "price 9").replace("tanh", "sqr")
    same = arm.replace("price 3", "price 2").replace("tanh", "exp")
    module = parse_module(USERS.replace(arm, arm + dearer + same))
    ConvergePass().apply(make_context(), module)
    module.verify()
    text = str(module)
    assert [name for name in ("relu", "exp", "tanh", "sqr") if f"fuel.{name}" in text] == [
        "relu",
        "exp",
        "tanh",
    ]
    assert text.count("arm on") == 3


def test_a_persons_equal_arms_stay() -> None:
    module = parse_module(USERS.replace("fuel.exp", "fuel.relu"))
    ConvergePass().apply(make_context(), module)
    assert str(module).count("fuel.relu") == 2
