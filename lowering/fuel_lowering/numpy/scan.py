# SPDX-License-Identifier: MIT OR Apache-2.0
"""
A scan as a loop over steps in which nothing is allocated.

What a step computes lies in the workspace; ys are written into their rows of the stacked result;
a carry is updated in place where nothing reads the old one later, is the row of a y where it is
one, and has two buffers that take turns elsewhere. What no step changes is computed before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from xdsl.ir import Operation, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.layout import Layout
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.tensors import tensor_type
from fuel_lowering.numpy.builder import Builder, Rule, RuleOf
from fuel_lowering.numpy.steps import (
    Place,
    Recipe,
    Step,
    Straight,
    chains,
    copied,
    last_uses,
    may_take_over,
    needed,
)
from fuel_lowering.numpy.values import Ref, broadcast_if_needed, computed_like

LOOP = Recipe(())

Update = Literal["in place", "row", "swap"]


@dataclass(eq=False)
class ScanStep(Step):
    """A whole scan as one step, with several results."""

    op: ScanOp = field(kw_only=True)
    outputs: list[Ref] = field(kw_only=True)
    rule_of: RuleOf = field(kw_only=True)

    @property
    def results(self) -> Sequence[Ref]:
        return self.outputs

    def emit(self, straight: Straight) -> None:
        _Loop(self, straight).write()


def _scan(b: Builder, op: ScanOp, xs: Sequence[Ref]) -> list[Ref]:
    outputs = [computed_like(tensor_type(r), r.name_hint) for r in op.outputs]
    operands = tuple(map(broadcast_if_needed, xs))
    if outputs:
        b.steps.append(
            ScanStep(LOOP, operands, outputs[0], op=op, outputs=outputs, rule_of=b.rule_of)
        )
    return outputs


@dataclass(eq=False)
class _Carry:
    """A carry that changes: its value in the body, its next one, and how that takes over."""

    argument: Ref
    init: Ref
    result: Ref
    following: Ref
    update: Update = "swap"
    spare: str = ""


@dataclass(eq=False)
class _Y:
    """A y that is wanted: its row in the body, and the stacked result."""

    value: Ref
    result: Ref
    row: str = ""


class _Loop:
    def __init__(self, step: ScanStep, straight: Straight):
        self.step, self.op, self.writer = step, step.op, straight.writer
        self.straight = straight
        op = step.op
        count = len(op.inits)
        self.inits = step.operands[:count]
        self.xs = step.operands[count : count + len(op.xs)]
        self.values: dict[SSAValue, Ref] = {}
        consts = step.operands[count + len(op.xs) :]
        self.values.update(zip(op.const_args, consts, strict=True))
        self.rows: list[Ref] = []

    # What the body computes.

    def write(self) -> None:
        writer = self.writer
        writer.touch(self.step.operands)
        for result in self.step.outputs:
            if result in self.straight.read:
                self.straight.place_of(result).make(writer, result.shape, result.dtype)
        self._bind()
        builder = Builder(writer, self.values, self.step.rule_of)
        yielded = builder.add_block(self.op.body.block)
        before, body = self._split(needed(builder.steps, self._wanted(yielded)))
        self.body = body
        self._claim(yielded)
        held = [r for s in before for r in s.results]
        Straight(writer, before, {}, kept=held).write()
        self._write_loop()
        writer.clock += 1
        writer.touch([*self.step.operands, *held, *(c.argument for c in self.carries)])
        writer.touch(r for r in self.step.outputs if r in self.straight.read)
        for buffer in self.turning:
            buffer.live_at(writer.clock)

    def _bind(self) -> None:
        """Values for carries and rows of xs; a carry that is only passed on is a constant."""
        op = self.op
        for argument, init, following in zip(
            op.carry_args, self.inits, op.end.carries, strict=True
        ):
            type = tensor_type(argument)
            passed_on = following is argument
            self.values[argument] = init if passed_on else computed_like(type, argument.name_hint)
        for argument, x in zip(op.x_args, self.xs, strict=True):
            layout = Layout(x.array_shape[1:], x.layout.strides[1:])
            dtype = dtypes.of_type(tensor_type(argument)).numpy
            row = Ref(layout.shape, dtype, layout, argument.name_hint or "x_t")
            self.values[argument] = row
            self.rows.append(row)

    def _split(self, steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
        """The steps that no carry or x reaches, and the others: all if there may be no step."""
        if not self.op.steps:
            return [], list(steps)
        arguments = [*self.op.carry_args, *self.op.x_args]
        varying = {self.values[a].root for a in arguments} - {i.root for i in self.inits}
        before: list[Step] = []
        body: list[Step] = []
        for step in steps:
            if varying.isdisjoint(operand.root for operand in step.operands):
                before.append(step)
            else:
                body.append(step)
                varying.update(step.results)
        return before, body

    def _wanted(self, yielded: Sequence[Ref]) -> list[Ref]:
        """Returns the values that the loop must compute: all but the ys that nobody reads."""
        first = len(self.op.inits)
        ys = dict(enumerate(self.op.y_results, first))
        outputs, read = self.step.outputs, self.straight.read
        return [v for i, v in enumerate(yielded) if i not in ys or outputs[i] in read]

    def _claim(self, yielded: Sequence[Ref]) -> None:
        """Maps results of the body to carries, ys and the flag; other values are copied."""
        op, outputs = self.op, self.step.outputs
        count, end = len(op.inits), len(op.end.ys)
        own = {result for step in self.body for result in step.results}
        claimed: set[Ref] = set()

        def own_result(value: Ref) -> Ref:
            if value not in own or value in claimed:
                self.body.append(copied(value))
                value = self.body[-1].result
            claimed.add(value)
            return value

        self.ys = [
            _Y(own_result(value), result)
            for value, result in zip(yielded[count:], outputs[count : count + end], strict=False)
            if result in self.straight.read
        ]
        self.carries: list[_Carry] = []
        rows = {y.value for y in self.ys}
        for index, argument in enumerate(op.carry_args):
            if op.end.carries[index] is argument:
                continue
            value = self.values[argument]
            following = yielded[index] if yielded[index] in rows else own_result(yielded[index])
            rows.discard(following)
            self.carries.append(_Carry(value, self.inits[index], outputs[index], following))
        self.flag = None if op.end.until is None else own_result(yielded[-1])

    # The loop.

    def _write_loop(self) -> None:
        writer = self.writer
        self.turning = []
        places: dict[Ref, Place] = {}
        self._name_rows(places)
        for carry in self.carries:
            self._prepare(carry, places)
        done = self._start_counting()
        header = self._header()
        writer.open()
        self._row_lines()
        kept = [] if self.flag is None else [self.flag]
        Straight(writer, self.body, places, kept).write()
        self._turn_carries()
        if done and self.flag is not None:
            writer.line(f"{done} += 1")
            writer.line(f"if {writer.text(self.flag)}:")
            writer.line("    break")
        writer.close(header)
        self._finish(done)

    def _name_rows(self, places: dict[Ref, Place]) -> None:
        level = self.writer.level + 1
        for row in self.rows:
            row.text, row.home = self.writer.names.fresh(row.hint), level
        for y in self.ys:
            y.row = self.writer.names.fresh(f"{self.writer.text(y.result)}_t")
            places[y.value] = Place(y.row, level)

    def _prepare(self, carry: _Carry, places: dict[Ref, Place]) -> None:
        """Choose how a carry is updated, and let it hold the initial value."""
        writer, argument = self.writer, carry.argument
        init = writer.text(carry.init)
        if carry.following in places:
            carry.update = "row"
            argument.text = writer.names.fresh(argument.hint, "carry")
            argument.home = writer.level + 1
            writer.line(f"{argument.text} = {init}")
            return
        if self._dies_in_time(carry, [*places, *(c.following for c in self.carries)]):
            carry.update = "in place"
            place = self._place_of_carry(carry)
            place.hold(argument)
            places[carry.following] = place
            writer.line(f"copyto({place.text}, {init})")
            return
        shape, dtype = argument.shape, argument.dtype
        first, second = (writer.buffer(argument.hint, shape, dtype) for _ in range(2))
        self.turning += [first, second]
        argument.text = writer.names.fresh(argument.hint, "carry")
        carry.spare = writer.names.fresh(f"{argument.text}_next")
        argument.home = writer.level + 1
        places[carry.following] = Place(carry.spare, argument.home)
        writer.line(f"copyto({first.name}, {init})")
        writer.line(f"{argument.text}, {carry.spare} = {first.name}, {second.name}")

    def _place_of_carry(self, carry: _Carry) -> Place:
        if carry.result in self.straight.read:
            return self.straight.place_of(carry.result)
        argument = carry.argument
        return Place.of(self.writer.buffer(argument.hint, argument.shape, argument.dtype))

    def _dies_in_time(self, carry: _Carry, kept: Sequence[Ref]) -> bool:
        """Returns True if nothing reads the carry while its next value is being written."""
        flags = [] if self.flag is None else [self.flag]
        chain = chains(self.body, {*kept, *flags})[carry.following]
        first = next(i for i, step in enumerate(self.body) if chain[0] in step.results)
        last = last_uses(self.body).get(carry.argument, -1)
        if last < first:
            return True
        step = self.body[first]
        return last == first and bool(step.recipe.reuse) and may_take_over(step, carry.argument)

    def _start_counting(self) -> str | None:
        if self.flag is None:
            return None
        done = self.writer.names.fresh("done")
        self.writer.line(f"{done} = 0")
        return done

    def _header(self) -> str:
        """The `for` line: rows of the xs and ys, or just a count."""
        names = [self._row_name(r.text or "", r.shape) for r in self.rows]
        names += [self._row_name(y.row, y.value.shape) for y in self.ys]
        stacks = [self._stack(x) for x in self.xs] + [self._stack(y.result) for y in self.ys]
        if not names:
            return f"for _ in range({self.op.steps}):"
        over = stacks[0] if len(stacks) == 1 else f"zip({', '.join(stacks)})"
        return f"for {', '.join(names)} in {over}:"

    def _row_name(self, name: str, shape: Sequence[int]) -> str:
        return name if shape else f"{name}_row"

    def _stack(self, ref: Ref) -> str:
        """Returns the arrays that the loop runs over; rows are arrays even with rank 0."""
        if len(ref.shape) == 1:
            ref = ref.view("{}[:, None]", ref.layout.unsqueeze(1))
        reverse = "[::-1]" if self.op.reverse is not None else ""
        return self.writer.text(ref) + reverse

    def _row_lines(self) -> None:
        """Rows of rank 0, out of rows of one element."""
        rows = [(r.text, r.shape) for r in self.rows]
        for name, shape in [*rows, *((y.row, y.value.shape) for y in self.ys)]:
            if not shape:
                self.writer.line(f"{name} = {name}_row.reshape(())")

    def _turn_carries(self) -> None:
        for carry in self.carries:
            name, writer = carry.argument.text, self.writer
            if carry.update == "row":
                writer.line(f"{name} = {writer.text(carry.following)}")
            if carry.update == "swap":
                writer.line(f"{name}, {carry.spare} = {carry.spare}, {name}")

    def _finish(self, done: str | None) -> None:
        """Final carries, rows that were not reached, the number of steps."""
        writer, read = self.writer, self.straight.read
        changing = {carry.result: carry for carry in self.carries}
        for init, result in zip(self.inits, self.step.outputs, strict=False):
            carry = changing.get(result)
            source = init if carry is None else carry.argument
            if result in read and not (carry and carry.update == "in place"):
                writer.line(f"copyto({writer.text(result)}, {writer.text(source)})")
        if done is None:
            return
        length = self.op.steps
        rest = f":{length} - {done}" if self.op.reverse is not None else f"{done}:"
        for y in self.ys:
            writer.line(f"{writer.text(y.result)}[{rest}] = 0")
        if self.step.outputs[-1] in read:
            writer.line(f"{writer.text(self.step.outputs[-1])}[...] = {done}")


RULES: dict[type[Operation], Rule] = {ScanOp: _scan}
"""The rule for scans."""
