# SPDX-License-Identifier: MIT OR Apache-2.0
"""The attributes of the dialect: device, target, topology, arm of a branch, constant bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects import builtin
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, NoneAttr, StringAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from fuel_dialect.errors import UnknownDevice

HOST = "cpu"
"""The device kind that is the host itself; the only one whose ordinal is not printed."""

NAME = "fuel.name"
"""The attribute of an argument or a result with the name that people call it by."""

UNPRICED = -1
MAX_PRICE = 2**63 - 1
USER_ORIGIN = "user"
"""Origin of arms that a person wrote; `fuel-strip-plan` leaves their branch alone."""


def text_of(attribute: Attribute | None) -> str | None:
    """The text of a string attribute; xDSL reads back as bytes what is not ASCII, as UTF-8."""
    if isinstance(attribute, StringAttr):
        return attribute.data
    if not isinstance(attribute, builtin.BytesAttr):
        return None
    try:
        return attribute.data.decode()
    except UnicodeDecodeError:
        return None


def as_text(attribute: Attribute) -> Attribute:
    """The string attribute that was meant, where xDSL made one of bytes; others as they are."""
    text = text_of(attribute) if isinstance(attribute, builtin.BytesAttr) else None
    return attribute if text is None else StringAttr(text)


def parse_text(parser: AttrParser, context: str = "") -> str:
    """A string literal, whatever characters it holds and however they are escaped."""
    escaped = parser.parse_optional_bytes_literal()
    if escaped is None:
        return parser.parse_str_literal(context)
    text = text_of(builtin.BytesAttr(escaped))
    if text is None:
        parser.raise_error("the bytes of this string are not UTF-8")
    return text


MAX_ORDINAL = 999_999_999
"""The number of a device has nine digits at most."""


def _is_ordinal(text: str) -> bool:
    """Return True for a decimal number of at most `MAX_ORDINAL`."""
    return text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ORDINAL))


def _shortened(text: str, length: int = 80) -> str:
    """Show a text that a user gave in a message, its first part if it is long."""
    return repr(text) if len(text) <= length else f"{text[:length]!r}..."


def _parse_device(parser: AttrParser) -> tuple[StringAttr, IntAttr]:
    kind = parser.parse_identifier()
    ordinal = parser.parse_integer(False, False) if parser.parse_optional_punctuation(":") else 0
    if ordinal > MAX_ORDINAL:
        parser.raise_error(f"the number of a device is at most {MAX_ORDINAL}")
    return StringAttr(kind), IntAttr(ordinal)


@irdl_attr_definition
class DeviceAttr(ParametrizedAttribute):
    """
    One device: `#fuel.device<cpu>`, `#fuel.device<cuda:0>`.

    A kind alone means ordinal 0. Kinds are open-ended.
    """

    name: ClassVar[str] = "fuel.device"

    kind: StringAttr
    ordinal: IntAttr

    @staticmethod
    def of(name: str | DeviceAttr) -> DeviceAttr:
        """Read `cpu`, `cuda` or `cuda:1`. Raises `UnknownDevice` for anything else."""
        if isinstance(name, DeviceAttr):
            return name
        kind, colon, ordinal = name.partition(":")
        if not kind.isidentifier() or (colon and not _is_ordinal(ordinal)):
            raise UnknownDevice(
                f"{_shortened(name)} does not name a device; write a kind and a number, such as "
                "cpu or cuda:0"
            )
        return DeviceAttr(StringAttr(kind), IntAttr(int(ordinal or 0)))

    @property
    def label(self) -> str:
        """The name a person types: `cpu`, `cuda:0`."""
        if self.kind.data == HOST and not self.ordinal.data:
            return HOST
        return f"{self.kind.data}:{self.ordinal.data}"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return _parse_device(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.label}>")

    def __str__(self) -> str:
        return self.label


@irdl_attr_definition
class TargetAttr(ParametrizedAttribute):
    """A device and the code generator that serves it: `#fuel.target<cpu, "numpy">`."""

    name: ClassVar[str] = "fuel.target"

    device: DeviceAttr
    backend: StringAttr

    @staticmethod
    def of(device: str | DeviceAttr, backend: str) -> TargetAttr:
        return TargetAttr(DeviceAttr.of(device), StringAttr(backend))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            device = DeviceAttr(*_parse_device(parser))
            parser.parse_punctuation(",")
            return device, StringAttr(parse_text(parser))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.device.label}, ")
        printer.print_attribute(self.backend)
        printer.print_string(">")

    def __str__(self) -> str:
        return f"{self.device.label}/{self.backend.data}"


@irdl_attr_definition
class TopologyAttr(ParametrizedAttribute):
    """
    The machine that a plan may use: a name and its targets, most wanted first.

    `#fuel.topology<"cpu", [#fuel.target<cpu, "numpy">]>`, stamped on the module as `fuel.topology`.
    A machine that is no preset may be described by a third parameter, a dictionary with the
    `devices`, `links` and `rates` of the JSON form (`fuel_passes.planning.topology`).
    """

    name: ClassVar[str] = "fuel.topology"

    label: StringAttr
    targets: ArrayAttr[TargetAttr]
    description: DictionaryAttr | NoneAttr

    @staticmethod
    def of(
        label: str, targets: Sequence[TargetAttr], description: DictionaryAttr | None = None
    ) -> TopologyAttr:
        return TopologyAttr(StringAttr(label), ArrayAttr(targets), description or NoneAttr())

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            label = StringAttr(parser.parse_str_literal())
            parser.parse_punctuation(",")
            targets = parser.parse_attribute()
            description = NoneAttr()
            if parser.parse_optional_punctuation(","):
                description = parser.parse_attribute()
        return label, targets, description

    def print_parameters(self, printer: Printer) -> None:
        shown: list[Attribute] = [self.label, self.targets]
        if not isinstance(self.description, NoneAttr):
            shown.append(self.description)
        with printer.in_angle_brackets():
            printer.print_list(shown, printer.print_attribute)


@irdl_attr_definition
class ArmAttr(ParametrizedAttribute):
    """
    Describes one arm of a `fuel.branch`: target, price and origin.

    The price is in nanoseconds, `UNPRICED` where nobody has priced the arm. The origin names
    the pass that made the arm and why, or is `user`.
    """

    name: ClassVar[str] = "fuel.arm"

    target: TargetAttr
    price: IntAttr
    origin: StringAttr

    @staticmethod
    def of(target: TargetAttr, price: int | None = None, origin: str = USER_ORIGIN) -> ArmAttr:
        """An arm; the price is capped at 2^63 - 1 nanoseconds."""
        capped = UNPRICED if price is None else min(price, MAX_PRICE)
        return ArmAttr(target, IntAttr(capped), StringAttr(origin))

    @property
    def price_ns(self) -> int | None:
        return None if self.price.data == UNPRICED else self.price.data

    @property
    def is_planned(self) -> bool:
        """Returns True if a pass made this arm."""
        return self.origin.data != USER_ORIGIN

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            target = parser.parse_attribute()
            if not isinstance(target, TargetAttr):
                parser.raise_error("an arm starts with its target, such as #fuel.target<cpu, ..>")
            return target, *parse_arm_details(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_attribute(self.target)
        print_arm_details(self, printer)
        printer.print_string(">")


def parse_arm_details(parser: AttrParser) -> tuple[IntAttr, StringAttr]:
    """`[price N] [origin "..."]`, as after the target of an arm."""
    price = UNPRICED
    if parser.parse_optional_keyword("price"):
        price = parser.parse_integer(False, False)
        if price > MAX_PRICE:
            parser.raise_error(f"a price is at most {MAX_PRICE} nanoseconds, got {price}")
    origin = USER_ORIGIN
    if parser.parse_optional_keyword("origin"):
        origin = parse_text(parser)
    return IntAttr(price), StringAttr(origin)


def print_arm_details(arm: ArmAttr, printer: Printer) -> None:
    """The inverse of `parse_arm_details`."""
    if arm.price_ns is not None:
        printer.print_string(f" price {arm.price_ns}")
    if arm.is_planned:
        printer.print_string(" origin ")
        printer.print_attribute(arm.origin)


@irdl_attr_definition
class BytesAttr(Data[bytes]):
    """
    The elements of a constant as little-endian bytes, row-major: `#fuel.bytes<"0x0000803F">`.

    Used in place of `dense<...>`, which xDSL 0.75 corrupts for NaN, inf and large floats.
    """

    name = "fuel.bytes"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> bytes:
        with parser.in_angle_brackets():
            text = parser.parse_str_literal()
        try:
            if not text.startswith("0x"):
                raise ValueError
            return bytes.fromhex(text[2:])
        except ValueError:
            parser.raise_error('bytes are written as "0x" and an even number of hex digits')

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f'<"0x{self.data.hex().upper()}">')
