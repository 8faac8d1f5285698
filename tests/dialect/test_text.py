# SPDX-License-Identifier: MIT OR Apache-2.0
"""Constants of every dtype survive text, pretty and generic, bit for bit."""

from __future__ import annotations

import math
from io import StringIO
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.printer import Printer

from effort import examples
from fuel_dialect import dtypes
from fuel_dialect.attributes import ArmAttr, BytesAttr, DeviceAttr, TargetAttr
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import UnknownDevice
from fuel_dialect.numbers import splat_attribute
from fuel_dialect.ops.base import ConstOp
from fuel_dialect.tensors import tensor
from ops_on_arrays import arrays, few, shapes

CONTEXT = make_context()
HELD = [d.name for d in dtypes.TABLE if d.numpy_name is not None]
FLOATING = [d.name for d in dtypes.TABLE if d.kind in ("float", "storage")]


def text_of(module: ModuleOp, generic: bool) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def round_trips(module: ModuleOp) -> list[ModuleOp]:
    """The module read back from pretty and from generic text; both print the same again."""
    module.verify()
    back = [parse_module(text_of(module, generic), context=CONTEXT) for generic in (False, True)]
    for copy in back:
        assert text_of(copy, False) == text_of(module, False)
        assert text_of(copy, True) == text_of(module, True)
    return back


def constants(module: ModuleOp) -> list[ConstOp]:
    return [op for op in module.ops if isinstance(op, ConstOp)]


@few
@pytest.mark.parametrize("dtype", HELD)
@given(data=st.data())
def test_bytes_round_trip(dtype: str, data: st.DataObject):
    array = data.draw(arrays(dtype, shapes()))
    bytes_of = BytesAttr(array.tobytes())
    module = ModuleOp([ConstOp.make(declared=[tensor(array.shape, dtype)], value=bytes_of)])
    for back in round_trips(module):
        (constant,) = constants(back)
        assert constant.value == bytes_of
        assert constant.to_numpy().tobytes() == array.tobytes()


@few
@pytest.mark.parametrize("dtype", HELD)
@given(data=st.data())
def test_any_splat_round_trips(dtype: str, data: st.DataObject):
    element = data.draw(arrays(dtype, ()))
    array = np.broadcast_to(element, (3, 2))
    for back in round_trips(ModuleOp([ConstOp.from_numpy(array)])):
        (constant,) = constants(back)
        assert constant.to_numpy().tobytes() == array.tobytes()


SPECIAL = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, -math.nan]
LARGE = [16777216.0, 16777217.0, 2.0**53, 2.0**53 + 2, 1e300, -1e300, 5e-324, 0.1, 1 / 3, 1e-40]


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("value", [*SPECIAL, *LARGE], ids=str)
def test_special_floats_round_trip_as_splats(dtype: str, value: float):
    type = tensor((2,), dtype)
    unsigned = dtype == "f8E8M0FNU"
    module = ModuleOp([ConstOp.splat_of(abs(value) if unsigned else value, type)])
    for back in round_trips(module):
        assert constants(back)[0].value == constants(module)[0].value


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_extreme_integers_round_trip_as_splats(dtype: str):
    limits = np.iinfo(dtypes.of(dtype).numpy)
    for value in (int(limits.min), int(limits.max), 0, 1, int(limits.max) - 1):
        for back in round_trips(ModuleOp([ConstOp.splat_of(value, tensor((2,), dtype))])):
            (constant,) = constants(back)
            assert constant.to_numpy().tolist() == [value, value]


def test_masks_round_trip():
    for value in (True, False):
        for back in round_trips(ModuleOp([ConstOp.splat_of(value, tensor((2,), "i1"))])):
            assert constants(back)[0].to_numpy().tolist() == [value, value]


@pytest.mark.parametrize("dtype", FLOATING)
def test_a_splat_means_the_number_it_prints(dtype: str):
    if dtype not in HELD:
        return
    for value in (1.0, 0.5, 2.0):
        constant = ConstOp.splat_of(value, tensor((1,), dtype))
        assert constant.splat == value
        assert float(constant.to_numpy()[0]) == value


def test_a_large_splat_takes_one_line():
    module = ModuleOp([ConstOp.splat_of(1.0, tensor((4096, 4096), "f32"))])
    assert len(text_of(module, False)) < 200
    assert len(text_of(module, True)) < 200


@given(
    scalar=st.floats(width=64),
    exponent=st.integers(-(2**31), 2**31 - 1),
)
def test_scalar_properties_round_trip(scalar: float, exponent: int):
    number = text_of_float(scalar)
    module = parse_module(f"""
    func.func @f(%x: tensor<2xf32>) {{
      %0 = fuel.add_scalar %x {{scalar = {number}}} : tensor<2xf32>
      %1 = fuel.powi %0 {{exponent = {exponent} : i64}} : tensor<2xf32>
      func.return
    }}
    """)
    for back in round_trips(module):
        ops = list(back.walk())
        found = next(op.properties["scalar"] for op in ops if op.name == "fuel.add_scalar")
        assert found == splat_attribute(scalar, dtypes.of("f64").type)


def text_of_float(value: float) -> str:
    stream = StringIO()
    Printer(stream).print_attribute(FloatAttr(value, 64))
    return stream.getvalue()


@pytest.mark.parametrize("name", ["cpu", "cuda:0", "cuda:13", "vulkan:1", "npu:0"])
def test_devices_read_back(name: str):
    device = DeviceAttr.of(name)
    assert device.label == name
    assert str(device) == name
    assert DeviceAttr.of(device) is device


def test_a_kind_alone_is_device_zero():
    assert DeviceAttr.of("cuda") == DeviceAttr.of("cuda:0")
    assert DeviceAttr.of("cpu:1").label == "cpu:1"


@pytest.mark.parametrize(
    "name", ["", "cuda:", "cuda:x", ":0", "cuda:-1", "cu da", "cuda:0:1", "cuda:²"]
)
def test_other_names_are_no_devices(name: str):
    with pytest.raises(UnknownDevice, match="does not name a device"):
        DeviceAttr.of(name)


def test_prices_are_capped():
    target = TargetAttr.of("cpu", "numpy")
    assert ArmAttr.of(target, 2**64).price_ns == 2**63 - 1
    assert ArmAttr.of(target).price_ns is None
    assert ArmAttr.of(target, 0).price_ns == 0
    assert not ArmAttr.of(target).is_planned
    assert ArmAttr.of(target, origin="fuel-plan").is_planned


CONTROL = Path(__file__).parents[2] / "filecheck" / "dialect" / "control_ops.mlir"


@examples(25)
@given(names=st.lists(st.sampled_from([None, "a", "b", "a_1"]), min_size=1, max_size=9))
def test_regions_read_back_whatever_their_values_are_called(names: list[str | None]):
    module = parse_module(CONTROL.read_text(), context=CONTEXT)
    blocks = [block for op in module.walk() for region in op.regions for block in region.blocks]
    values = [value for block in blocks for value in block.args]
    values += [result for op in module.walk() for result in op.results]
    for value, name in zip(values, cycle(names), strict=False):
        value.name_hint = name
    for generic in (False, True):
        back = parse_module(text_of(module, generic), context=CONTEXT)
        assert module.is_structurally_equivalent(back)
