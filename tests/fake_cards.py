# SPDX-License-Identifier: MIT OR Apache-2.0
"""CUDA devices on the stand-in for CuPy, and arrays of other libraries in their memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from fake_cupy import LEGACY, FakeCupy, Interpreted, Stream, ndarray
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.targets.numpy import DESCRIPTION as NUMPY
from fuel_lowering.runs.launches import DeviceKernel
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.cuda.driver import CudaDriver, LoadedKernel
from fuel_runtime.devices.host.device import Host
from fuel_runtime.devices.present import Devices

CUDA = DeviceAttr.of("cuda:0")

Array = np.ndarray[Any, np.dtype[Any]]


class FakeCard(CudaDriver):
    """The CUDA driver; its stand-in for CuPy interprets what is loaded."""

    made: list[FakeCard] = []

    def __init__(self, device: DeviceAttr = CUDA, cupy: FakeCupy | None = None):
        self.fake = FakeCupy() if cupy is None else cupy
        super().__init__(device, self.fake)
        self.made.append(self)

    def load(self, kernel: DeviceKernel) -> LoadedKernel:
        self.fake.kernels[kernel.name] = Interpreted(kernel)
        return super().load(kernel)

    def close(self) -> None:
        if self in self.made:
            self.made.remove(self)
            super().close()


def fake_cards(cupy: FakeCupy, *numbers: int) -> Devices:
    """A session's devices: the host, and cards of the stand-in."""
    from fuel_lowering.triton.lower import lower_run

    host = Host(1, [NUMPY])
    names = [DeviceAttr.of(f"cuda:{number}") for number in numbers]
    cards = [BufferDevice(name, FakeCard(name, cupy), {"triton": lower_run}) for name in names]
    asked = ",".join(["cpu", *map(str, names)])
    return Devices(asked, (host, *cards), (), host, 1)


class Foreign:
    """
    An array of another library: its elements come late, in a stream of its own.

    `ways` are the protocols that it has; `facts` change what `__cuda_array_interface__` says.
    """

    def __init__(
        self,
        cupy: FakeCupy,
        array: Array,
        *,
        card: int = 0,
        ways: str = "interface",
        stream: int | None = None,
        **facts: Any,
    ):
        self.cupy, self.card, self.ways = cupy, card, ways
        with cupy.cuda.Device(card):
            made = cupy.cuda.Stream(non_blocking=True)
            self.stream: Stream = made if stream is None else cupy.stream_of(stream)
            with self.stream:
                self.memory = cupy.cuda.MemoryPool().malloc(max(_span(array), 1))
        self.facts: dict[str, Any] = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.memory.ptr if array.size else 0, False),
            "strides": None if array.flags.c_contiguous else array.strides,
            "stream": self.stream.ptr,
            "version": 3,
            **facts,
        }
        self.dtype, self.strides = array.dtype, array.strides
        self.store(array)

    def asked(self) -> None:
        """Runs when somebody wants the elements."""

    def store(self, array: Array) -> None:
        """Elements are written when the stream comes to it."""
        span = np.zeros(max(_span(array), 1), np.uint8)
        view = np.ndarray(array.shape, array.dtype, span.data, strides=array.strides)
        view[...] = array
        self.stream.waiting.append(lambda: self.memory.bytes.__setitem__(slice(span.size), span))

    def __getattr__(self, name: str) -> Any:
        if name == "__cuda_array_interface__" and "interface" in self.ways:
            return {key: value for key, value in self.facts.items() if value is not ...}
        raise AttributeError(name)

    def __dlpack_device__(self) -> tuple[int, int]:
        if "dlpack" not in self.ways:
            raise AttributeError("__dlpack_device__")
        return 2, self.card

    def __dlpack__(self, *, stream: int, **options: Any) -> Any:
        """As PyTorch does it: the stream that reads waits for the own one."""
        self.asked()
        if "refused" in self.ways:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(self.stream)
        self.cupy.stream_of(stream).wait_event(event)
        shape, strides = self.facts["shape"], self.strides
        memory = self.cupy.cuda.UnownedMemory(self.memory.ptr, 0, self, self.card)
        data = self.cupy.cuda.MemoryPointer(memory, 0)
        return self.cupy.capsule(ndarray(self.cupy, shape, self.dtype, data, strides))


def _span(array: Array) -> int:
    """The bytes from the first element to the last, of positive strides."""
    if not array.size:
        return 0
    ends = ((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True))
    return sum(ends) + array.itemsize


__all__ = ["CUDA", "LEGACY", "FakeCard", "Foreign", "fake_cards"]
