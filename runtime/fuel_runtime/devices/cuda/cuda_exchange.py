# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Passes arrays between CUDA cards, and between fuel and other libraries, without the host.

What comes in is copied, once: a run is recorded for the memory of its inputs, which is the same in
each call as long as it is fuel's own. What goes out is the memory itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, cast

import numpy as np

from fuel_dialect.errors import ArgumentError
from fuel_dialect.layout import row_major_strides
from fuel_runtime.devices.exchange import Exchange

CUDA_OF_DLPACK = 2
"""DLPack's number of the device type of CUDA cards."""

MANAGED_OF_DLPACK = 13

ALREADY_REACHED = 704
"""The status of that error of CUDA: another library has been here."""

BF16_TYPESTR = "<V2"
"""The type strings of bf16 in ml_dtypes, CuPy and PyTorch; NumPy has no letter for it."""


@dataclass(frozen=True)
class CudaArray:
    """
    Elements in CUDA memory that belongs to somebody else, until this object goes.

    Who reads them orders the reading after the work that `stream` has by then. Without a stream the
    elements are there if `is_ready`; if not, they are when their card has nothing left to do. The
    owner may write to them when the reading is done: in that stream if `is_owners`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    """In bytes; None for row-major."""
    address: int
    card: int
    """The number of the card whose memory it is."""
    stream: int | None
    """The handle of a stream, as CUDA has it."""
    is_ready: bool
    is_owners: bool
    keep: Any
    """The object that holds the memory."""


class Card(Protocol):
    """Says what an exchange asks of the driver of its card."""

    cupy: Any
    card: Any
    guard: Any
    """The block that makes the card the current one, and turns CUDA's errors into those of fuel."""
    stream: Any

    def wait_for(self, event: Any) -> None:
        """Waits until the card has come to an event. Raises `DeviceTimeout`."""
        ...


def is_on_cuda(value: object) -> bool:
    """Returns True if an object says that it is an array in CUDA memory."""
    return dlpack_card(value) is not None or _interface_of(value) is not None


def dlpack_card(value: object) -> int | None:
    """The number of the card that DLPack says an array is on."""
    kind, card = _place_of(value)
    return card if kind in (CUDA_OF_DLPACK, MANAGED_OF_DLPACK) else None


def _place_of(value: object) -> tuple[int, int]:
    """Returns what `__dlpack_device__` gives; no device for an object that lacks it or raises."""
    try:
        kind, card = cast(Any, value).__dlpack_device__()
        return int(kind), int(card)
    except Exception:
        return 0, 0


def _interface_of(value: object) -> Mapping[str, Any] | None:
    """The `__cuda_array_interface__`; PyTorch raises errors of all kinds where it has none."""
    try:
        found = cast(Any, value).__cuda_array_interface__
    except Exception:
        return None
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else None


@dataclass(frozen=True)
class Pitched:
    """Rows of bytes with gaps between them."""

    rows: int
    bytes: int
    pitch: int


def pitched(foreign: CudaArray) -> Pitched:
    """
    Elements as rows that follow one another at one distance.

    Raises `ArgumentError` for elements in another order, or further apart inside a row.
    """
    itemsize = foreign.dtype.itemsize
    plain = tuple(stride * itemsize for stride in row_major_strides(foreign.shape))
    strides = plain if foreign.strides is None else foreign.strides
    rows, bytes, pitch = 1, itemsize, itemsize
    for extent, stride in reversed(list(zip(foreign.shape, strides, strict=True))):
        if extent == 1:
            continue
        if rows == 1 and stride == bytes:
            bytes *= extent
        elif rows == 1 and stride > bytes:
            rows, pitch = extent, stride
        elif rows > 1 and stride == rows * pitch:
            rows *= extent
        else:
            raise ArgumentError(
                f"an array on a device must be row-major, but for a gap after each row; its "
                f"strides are {list(strides)} bytes, not {list(plain)}: pass a contiguous copy"
            )
    return Pitched(rows, bytes, pitch if rows > 1 else bytes)


class CudaExchange(Exchange):
    """The exchange of one card; `driver` is the driver of it, and all happens in its stream."""

    def __init__(self, driver: Card):
        self._driver = driver
        self._cupy = driver.cupy
        self._runtime = driver.cupy.cuda.runtime
        self._reached: set[int] = set()
        # The driver's own may be capturing a graph when an array is borrowed.
        with driver.guard:
            self._arrivals = self._cupy.cuda.Stream(non_blocking=True)

    @property
    def card(self) -> int:
        """The number of the card."""
        return self._driver.card.id

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """The card, as DLPack calls it."""
        return CUDA_OF_DLPACK, self.card

    def holds(self, value: object) -> bool:
        """Returns True if an object says that it is an array in CUDA memory."""
        return is_on_cuda(value)

    def is_home_of(self, value: object) -> bool:
        """Returns True if DLPack says that an array is on this card."""
        return dlpack_card(value) == self.card

    def array_interface(self, foreign: CudaArray) -> Mapping[str, Any]:
        """Returns the `__cuda_array_interface__`, read-only, of elements that are there by now."""
        return {
            "shape": foreign.shape,
            "typestr": foreign.dtype.str,
            "data": (foreign.address, True),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def lend(
        self, handle: Any, shape: tuple[int, ...], dtype: np.dtype[Any], keep: Any
    ) -> CudaArray:
        """Elements that are there when the stream of the card comes to its end."""
        stream = self._driver.stream.ptr
        return CudaArray(shape, dtype, None, handle.address, self.card, stream, False, True, keep)

    def borrow(self, array: object, dtype: np.dtype[Any] | None) -> CudaArray:
        """
        An array of another library, by DLPack, else by its `__cuda_array_interface__`.

        DLPack is asked first because it says when elements are there, which PyTorch's interface
        does not. Raises `ArgumentError`.
        """
        interface, failed = _interface_of(array), "it has no __cuda_array_interface__"
        if dlpack_card(array) is not None:
            try:
                return self._from_dlpack(array)
            except Exception as error:  # whatever the other library raises
                failed = str(error).partition("\n")[0]
        if interface is None:
            raise ArgumentError(f"a {type(array).__name__} on a device cannot be read: {failed}")
        try:
            with self._driver.guard:
                return self._from_interface(array, interface, dtype)
        except (LookupError, TypeError, ValueError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(
                f"the __cuda_array_interface__ of a {type(array).__name__} is {dict(interface)}, "
                f"which is none: {error!r}"
            ) from error

    def _from_dlpack(self, array: object) -> CudaArray:
        """The current stream of the array's card waits for its elements: so the protocol has it."""
        with self._driver.guard, self._arrivals:
            given = self._cupy.from_dlpack(array)
        card = given.data.device_id
        return CudaArray(
            tuple(given.shape),
            np.dtype(given.dtype),
            tuple(given.strides),
            given.data.ptr,
            card,
            stream=self._arrivals.ptr if card == self.card else None,
            is_ready=False,
            is_owners=False,
            keep=given,
        )

    def _from_interface(
        self, array: object, interface: Mapping[str, Any], dtype: np.dtype[Any] | None
    ) -> CudaArray:
        shape = tuple(int(extent) for extent in interface["shape"])
        strides, stream = interface.get("strides"), interface.get("stream")
        if interface.get("mask") is not None:
            raise ArgumentError("an array on a device has a mask; fuel has no masked elements")
        if stream == 0:
            raise ArgumentError(
                "an array on a device names stream 0, which can mean two streams; the "
                "__cuda_array_interface__ has 1 for the default stream and 2 for that of the thread"
            )
        address = int(interface["data"][0])
        return CudaArray(
            shape,
            _dtype_of(interface["typestr"], dtype),
            None if strides is None else tuple(int(stride) for stride in strides),
            address,
            self._card_of(address) if prod(shape) else self.card,
            stream=None if stream is None else int(stream),
            is_ready="stream" in interface and stream is None,
            is_owners=stream is not None,
            keep=array,
        )

    def _card_of(self, address: int) -> int:
        facts = self._runtime.pointerGetAttributes(address) if address else None
        if facts is None or facts.type == self._runtime.memoryTypeUnregistered:
            raise ArgumentError(f"an array on a device is at {address:#x}, which CUDA knows not of")
        return facts.device if facts.type == self._runtime.memoryTypeDevice else self.card

    def take_in(self, foreign: CudaArray, handle: Any) -> None:
        """
        Copy elements in the stream of the card.

        When this returns, the owner can write over them: his stream does so after the copy, and
        where his stream is not known, the copy is waited for.
        """
        rows, driver = pitched(foreign), self._driver
        with driver.guard:
            self._wait_for(foreign)
            self._copy(foreign, rows, handle.address)
            done = self._cupy.cuda.Event(disable_timing=True)
            done.record(driver.stream)
            if not foreign.is_owners:
                driver.wait_for(done)
                return
            with self._cupy.cuda.Device(foreign.card):
                self._runtime.streamWaitEvent(foreign.stream, done.ptr)

    def _wait_for(self, foreign: CudaArray) -> None:
        driver = self._driver
        if foreign.is_ready:
            return
        with self._cupy.cuda.Device(foreign.card):
            if foreign.stream is None:
                self._runtime.deviceSynchronize()
                return
            made = self._cupy.cuda.Event(disable_timing=True)
            self._runtime.eventRecord(made.ptr, foreign.stream)
        driver.stream.wait_event(made)

    def _copy(self, foreign: CudaArray, rows: Pitched, to: int) -> None:
        runtime, stream = self._runtime, self._driver.stream.ptr
        if foreign.card != self.card:
            self._reach(foreign.card)
        if rows.rows > 1:
            runtime.memcpy2DAsync(
                to,
                rows.bytes,
                foreign.address,
                rows.pitch,
                rows.bytes,
                rows.rows,
                runtime.memcpyDefault,
                stream,
            )
        elif foreign.card == self.card:
            runtime.memcpyAsync(to, foreign.address, rows.bytes, runtime.memcpyDefault, stream)
        else:
            runtime.memcpyPeerAsync(
                to, self.card, foreign.address, foreign.card, rows.bytes, stream
            )

    def _reach(self, card: int) -> None:
        """Let the cards reach each other directly, where they can; else CUDA goes by the host."""
        if card in self._reached:
            return
        self._reached.add(card)
        if not self._runtime.deviceCanAccessPeer(self.card, card):
            return
        try:
            self._runtime.deviceEnablePeerAccess(card)
        except RuntimeError as error:
            if getattr(error, "status", None) != ALREADY_REACHED:
                raise

    def export(
        self, foreign: CudaArray, stream: int | None, max_version: tuple[int, int] | None
    ) -> Any:
        """A capsule, made by CuPy, which lets the other stream wait for that of the card."""
        cupy, driver = self._cupy, self._driver
        memory = cupy.cuda.UnownedMemory(
            foreign.address,
            prod(foreign.shape) * foreign.dtype.itemsize,
            foreign.keep,
            foreign.card,
        )
        with driver.guard, driver.stream:
            try:
                pointer = cupy.cuda.MemoryPointer(memory, 0)
                return cupy.ndarray(foreign.shape, foreign.dtype, pointer).__dlpack__(
                    stream=stream, max_version=max_version
                )
            except (TypeError, ValueError) as error:
                raise BufferError(f"CuPy {cupy.__version__}: {error}") from None


def _dtype_of(typestr: str, hint: np.dtype[Any] | None) -> np.dtype[Any]:
    """The elements that a typestr names. Raises `ArgumentError` for big-endian ones."""
    from ml_dtypes import bfloat16

    if typestr == BF16_TYPESTR:
        return np.dtype(bfloat16)
    dtype = np.dtype(typestr)
    if not dtype.isnative:
        raise ArgumentError(f"an array on a device has elements {typestr!r}, which are big-endian")
    if dtype.kind == "V" and hint is not None and hint.itemsize == dtype.itemsize:
        return hint
    return dtype
