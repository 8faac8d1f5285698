# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Building programs in Python: a graph of tensors becomes a verified `builtin.module`.

    g = Graph()
    x = g.input((8, 16), "f32", name="x")
    w = g.weight("w", (16, 4), "f32")
    module = g.build((x @ w).relu().softmax())
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.attributes import NAME, TargetAttr
from fuel_dialect.builder import tensor
from fuel_dialect.builder.arguments import as_int, as_shape
from fuel_dialect.builder.branch import BranchBuilder, trace_branch
from fuel_dialect.builder.constants import make_constant
from fuel_dialect.builder.promotion import Operand
from fuel_dialect.builder.scan import Structure, trace_scan
from fuel_dialect.builder.state import update_state
from fuel_dialect.builder.tensor import Tensor
from fuel_dialect.builder.trace import Trace, backward_ops, block_of
from fuel_dialect.errors import DTypeError, GraphError, ShapeError
from fuel_dialect.numbers import integer
from fuel_dialect.ops.memory import IotaOp, WeightOp
from fuel_dialect.state import ALIASES, DONATED
from fuel_dialect.tensors import AnyTensor, describe
from fuel_dialect.tensors import tensor as tensor_of

Outputs = TypeVar("Outputs", bound="Tensor | Sequence[Tensor]")


class Graph:
    """
    A program under construction.

    One lock guards a graph, so threads may build the same one; `id` counts the graphs of the
    process from 1 and appears in messages.
    """

    def __init__(self) -> None:
        self.trace = Trace(self)
        self._names: list[str | None] = []
        self._weights: dict[str, AnyTensor] = {}

    @property
    def id(self) -> int:
        return self.trace.id

    @property
    def lock(self) -> AbstractContextManager[bool]:
        """The re-entrant lock that every method takes; hold it to append several ops together."""
        return self.trace.lock

    @property
    def op_count(self) -> int:
        """The number of ops so far, those inside arms and bodies included."""
        return sum(1 for op in self.trace.root.block.ops for _ in op.walk())

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs, in order: the arguments of the function."""
        return tuple(Tensor(self.trace, argument) for argument in self.trace.root.block.args)

    def __repr__(self) -> str:
        return f"<fuel.Graph #{self.id}: {len(self._names)} inputs, {self.op_count} ops>"

    def input(self, shape: Any, dtype: object = "f32", name: str | None = None) -> Tensor:
        """
        A new argument of the function, bound by `name` or else by position.

        Raises `GraphError` for a name in use, or inside an arm or a body.
        """
        return self._argument("input", shape, dtype, name)

    def state(self, shape: Any, dtype: object = "f32", name: str | None = None) -> Tensor:
        """
        A member of the state: a tensor that lives across calls, where `update` says what is next.

        It is an argument whose buffer is donated. Where it is written with `write` and nothing
        reads the old value afterwards, it is written in place. Without an `update` it stays as it
        is. Raises what `input` raises.

            cache = g.state((512, 64), "f32", name="cache")
            cache.update(cache.write(row, at=position))
        """
        with self.trace.lock:
            made = self._argument("state", shape, dtype, name)
            self.trace.updates[len(self._names) - 1] = made.value
            return made

    def update(self, state: Tensor, new: Tensor) -> None:
        """Sets what a member of the state is in the next call: `state.update(new)`."""
        update_state(self.trace, state, new)

    def _argument(self, op: str, shape: Any, dtype: object, name: str | None) -> Tensor:
        type = tensor_of(as_shape(op, shape), dtypes.of(dtype).type)
        with self.trace.lock:
            if self.trace.scope is not self.trace.root:
                raise GraphError(
                    f"{op}: an arm or a scan body has no {op}s of its own; make it outside"
                )
            _check_new_name(op, name, self._names)
            value = self.trace.root.block.insert_arg(type, len(self._names))
            self._names.append(name)
            if name is not None and SSAValue.is_valid_name(name):
                value.name_hint = name
            return Tensor(self.trace, value)

    def constant(self, value: object, dtype: object = None, shape: Any = None) -> Tensor:
        """
        A constant from a number, nested lists or an array.

        Without `dtype` NumPy's rules decide (Python floats are f64). With `shape` a number fills
        it, and other values are laid out in it, row-major. Raises `DTypeError` for what is no
        tensor and for values that an integer `dtype` or a mask does not have, `ShapeError` when
        the number of elements differs.
        """
        wanted = None if dtype is None else dtypes.of(dtype)
        dims = None if shape is None else as_shape("constant", shape)
        return Tensor(self.trace, make_constant(self.trace, value, wanted, dims))

    def _leaf(self, op: Operation) -> Tensor:
        return Tensor(self.trace, self.trace.leaf(op))

    def weight(self, name: str, shape: Any, dtype: object = "f32") -> Tensor:
        """
        A named tensor that is bound when the program is compiled.

        Raises `ShapeError` or `DTypeError` if the graph has this weight with another type.
        """
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GraphError(f"weight: a name is a non-empty string, got {name!r}")
        type = tensor_of(as_shape("weight", shape), dtypes.of(dtype).type)
        with self.trace.editing():
            known = self._weights.get(name, type)
            if known != type:
                error = DTypeError if known.get_shape() == type.get_shape() else ShapeError
                raise error(f"weight: {name!r} is {known} in this graph, not {type}")
            value = self._leaf(WeightOp.make(declared=[type], key=StringAttr(name)))
            self._weights[name] = type
            return value

    def iota(self, length: int) -> Tensor:
        """0, 1, ..., length - 1 as f32."""
        dims = as_shape("iota", (as_int("iota", "the length", length),))
        return self._leaf(IotaOp.make(declared=[tensor_of(dims, "f32")]))

    def concat(self, tensors: Sequence[Operand], axis: int | None = 0) -> Tensor:
        """Tensors joined along an axis: `fuel.concat`."""
        return tensor.concat(tensors, axis)

    def branch(
        self,
        inputs: Tensor | Sequence[Tensor],
        arms: Sequence[Callable[..., Outputs]],
        targets: Sequence[TargetAttr | str] | None = None,
        id: str | None = None,
    ) -> Outputs:
        """
        Several ways to compute one thing; the runtime picks an arm, by default arm 0.

        Each arm is a function of the inputs that returns a tensor or a tuple of tensors; arms may
        read their inputs, and constants and weights from anywhere. `targets` name where each arm
        runs: `"cpu"`, `"cuda:0/triton"`. Returns what arm 0 returned. Raises `InvalidBranch` when
        the arms do not agree, `GraphError` when one reads another tensor of the graph.
        """
        with self._tracing():
            return trace_branch(self.trace, inputs, arms, targets, id)

    @contextmanager
    def _tracing(self) -> Generator[None]:
        """`editing`, for what holds user code: names that it took are given back on an error."""
        with self.trace.editing():
            weights, decisions = dict(self._weights), set(self.trace.decisions)
            try:
                yield
            except BaseException:
                self._weights, self.trace.decisions = weights, decisions
                raise

    def open_branch(self, diverge: Tensor) -> BranchBuilder:
        """A builder that turns routes from `diverge`, already built, into the arms of a branch."""
        return BranchBuilder(self.trace, diverge)

    def scan(
        self,
        body: Callable[..., Any],
        init: Structure,
        xs: Structure = None,
        consts: Structure = (),
        length: int | None = None,
        reverse: bool = False,
    ) -> Any:
        """
        A loop that carries state: `jax.lax.scan`.

        `body(carry, x, *consts)` gets the carry, one slice of `xs` along axis 0 and the consts, and
        returns `(carry, y)` or `(carry, y, until)`; carry, x and y are a tensor, a tuple of tensors
        or None. The step that makes `until` (one i1) true is the last. Returns `(carry, ys)`, and
        with `until` the ui32 number of steps too. Tensors that the body reads from outside become
        consts.

        Raises `InvalidScan`, `ShapeError` or `DTypeError`, with the index of the carry or x.
        """
        with self._tracing():
            return trace_scan(self.trace, body, init, xs, consts, length, reverse)

    def build(
        self, *results: Any, name: str = "main", names: Sequence[str | None] | None = None
    ) -> ModuleOp:
        """
        A verified module with one function: all inputs, and the ops that the results need.

        The next values of the state follow as results that alias the arguments. A graph with state
        may have no other results.
        The graph stays as it is and can be built again. `names` are the names of the results.
        Raises `GraphError` for results that are not tensors of this graph, and for names that are
        no names or are taken.
        """
        if len(results) == 1 and isinstance(results[0], list | tuple):
            results = tuple(cast(Sequence[Any], results[0]))
        _check_name("build", name)
        labels = _check_results(self.trace, results, names, bool(self.trace.updates))
        with self.trace.lock:
            _check_defaults("input", "arg", self._names)
            _check_defaults("result", "result", labels)
            values = [*(r.value for r in results), *self.trace.updates.values()]
            function = self._function(values, name, labels)
        module = ModuleOp([function])
        module.verify()
        return module

    def _function(
        self, results: Sequence[SSAValue], name: str, labels: Sequence[str | None]
    ) -> FuncOp:
        root = self.trace.root.block
        block = Block(arg_types=[argument.type for argument in root.args])
        mapper: dict[SSAValue, SSAValue] = dict(zip(root.args, block.args, strict=True))
        for argument, clone in zip(root.args, block.args, strict=True):
            clone.name_hint = argument.name_hint
        needed = backward_ops(results)
        block.add_ops(op.clone(mapper) for op in root.ops if op in needed)
        outputs = [mapper[result] for result in results]
        block.add_op(ReturnOp(*outputs))
        return FuncOp(
            name,
            ([a.type for a in block.args], [o.type for o in outputs]),
            Region(block),
            arg_attrs=self._argument_attributes(),
            res_attrs=self._result_attributes(labels),
        )

    def _argument_attributes(self) -> ArrayAttr[DictionaryAttr] | None:
        entries = [_named(name) for name in self._names]
        for index in self.trace.updates:
            entries[index][DONATED] = UnitAttr()
        return _attributes(entries)

    def _result_attributes(self, labels: Sequence[str | None]) -> ArrayAttr[DictionaryAttr] | None:
        aliases: list[dict[str, Attribute]] = [{ALIASES: integer(i)} for i in self.trace.updates]
        return _attributes([*map(_named, labels), *aliases])


def _named(name: str | None) -> dict[str, Attribute]:
    return {} if name is None else {NAME: StringAttr(name)}


def _attributes(entries: Sequence[dict[str, Attribute]]) -> ArrayAttr[DictionaryAttr] | None:
    """The attributes of arguments or results; None where there are none."""
    if not any(entries):
        return None
    return ArrayAttr([DictionaryAttr(entry) for entry in entries])


def _check_new_name(op: str, name: object, taken: Sequence[str | None]) -> None:
    if name is None:
        return
    _check_name(op, name)
    if name in taken:
        raise GraphError(f"{op}: the name {name!r} is taken; names are unique in a function")


def _check_name(op: str, name: object) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise GraphError(
            f"{op}: a name is a non-empty string of printable characters, got {name!r}"
        )


def _check_defaults(what: str, prefix: str, names: Sequence[str | None]) -> None:
    """Raise `GraphError` for a name that another value, which has none, is known by."""
    for index, name in enumerate(names):
        default = f"{prefix}{index}"
        if name is None and default in names:
            raise GraphError(
                f"build: {what} {names.index(default)} is named {default!r}, which is what {what} "
                f"{index} is called as long as it has no name; name that too"
            )


def _check_results(
    trace: Trace,
    results: Sequence[object],
    names: Sequence[str | None] | None,
    has_state: bool,
) -> list[str | None]:
    """The labels of results. Raises `GraphError` for what cannot be a result."""
    if not results and not has_state:
        raise GraphError("build: needs one result or more")
    for index, result in enumerate(results):
        if not isinstance(result, Tensor):
            raise GraphError(f"build: result {index} is a {type(result).__name__}, not a tensor")
        if result.trace is not trace:
            raise GraphError(
                f"build: result {index} must live on the same graph: it is on #{result.trace.id}, "
                f"this is #{trace.id}"
            )
        if block_of(result.value) is not trace.root.block:
            raise GraphError(
                f"build: result {index}, {describe(result.value)}, was made inside an arm or a "
                "scan body; return it from there"
            )
    labels: list[str | None] = [None] * len(results) if names is None else list(names)
    if len(labels) != len(results):
        raise GraphError(f"build: {len(labels)} names for {len(results)} results")
    for index, label in enumerate(labels):
        _check_new_name("build", label, labels[:index])
    return labels
