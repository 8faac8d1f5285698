# SPDX-License-Identifier: MIT OR Apache-2.0
"""The programs of `cuda_programs.py` in torch, on the same operands, timed by the same clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cuda_machine import Machine
from cuda_programs import HEADS, Shape
from harness import Array, Clock, Contestant
from isolated import one_line
from peers import COMPILED, EAGER, Absent

CAPTURED = "torch graph"
CUPY = "CuPy (cuBLAS)"
KERNEL = "torch kernel"
GRAPH = "CuPy graph"

Function = Callable[..., list[Any]]
Maker = Callable[[Any, Shape], Function]
"""Of the package and the shape of a program: a function of tensors."""

Take = Callable[[Any], Any]
"""The part of a result that is compared."""


def gated(torch: Any, shape: Shape) -> Function:
    def run(x: Any, y: Any) -> list[Any]:
        h = x * 0.5 + y
        return [h / (torch.exp(-h) + 1) * y + x]

    return run


def softmax(torch: Any, shape: Shape) -> Function:
    return lambda x: [torch.softmax(x, -1)]


def rms_norm(torch: Any, shape: Shape) -> Function:
    return lambda x, gain: [torch.nn.functional.rms_norm(x, gain.shape, gain, 1e-6)]


def matmul(torch: Any, shape: Shape) -> Function:
    return lambda a, b: [a @ b]


def recurrence(torch: Any, shape: Shape) -> Function:
    def run(x: Any, a: Any, h: Any) -> list[Any]:
        states: list[Any] = []
        decay = a * 0.25
        for row in x:
            h = torch.tanh(decay * h + row)
            states.append(h)
        return [h, torch.stack(states)]

    return run


def block(torch: Any, shape: Shape) -> Function:
    positions, width = shape
    functional = torch.nn.functional

    def split(flat: Any) -> Any:
        return (flat * width**-0.5).view(positions, HEADS, width // HEADS).transpose(0, 1)

    def run(x: Any, g1: Any, q: Any, k: Any, v: Any, o: Any, g2: Any, *wide: Any) -> list[Any]:
        normed = functional.rms_norm(x, (width,), g1, 1e-6)
        heads = [split(normed @ w)[None] for w in (q, k, v)]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)[0]
        joined = mixed.transpose(0, 1).reshape(positions, width)
        x = x + joined @ o * width**-0.5
        normed = functional.rms_norm(x, (width,), g2, 1e-6)
        gate, linear = (normed @ w * width**-0.5 for w in wide[:2])
        return [x + functional.silu(gate) * linear @ wide[2] * wide[2].shape[0] ** -0.5]

    return run


def decode(torch: Any, shape: Shape) -> Function:
    """The state is its own: a cache that is updated in place."""
    heads, room, head = shape
    state: list[Any] = []

    def run(x: Any, *weights: Any) -> list[Any]:
        if not state:
            state.extend(torch.zeros(shape, dtype=x.dtype, device=x.device) for _ in range(2))
            state.append(torch.zeros(1, dtype=torch.int64, device=x.device))
            state.append(torch.arange(room, device=x.device))
        keys, values, count, row = state
        scale = (heads * head) ** -0.5
        q, k, v = ((x @ w * scale).view(heads, 1, head) for w in weights[:3])
        keys.index_copy_(1, count % room, k)
        values.index_copy_(1, count % room, v)
        count += 1
        scores = (q * head**-0.5) @ keys.transpose(1, 2)
        mixed = torch.softmax(scores.masked_fill(row >= count, -float("inf")), -1) @ values
        return [mixed.view(1, -1) @ weights[3]]

    return run


class Torch:
    """Contestants of one program in torch. Raises `Absent` where there is no torch."""

    def __init__(
        self, machine: Machine, make: Maker, shape: Shape, operands: Sequence[Array], take: Take
    ):
        self._machine = machine
        self._torch = torch = machine.torch
        torch.set_float32_matmul_precision("highest")
        self._make, self._shape, self._take = make, shape, take
        self._tensors = [self._tensor(operand) for operand in operands]

    def _tensor(self, array: Array) -> Any:
        torch = self._torch
        if array.dtype.name == "bfloat16":
            tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        else:
            tensor = torch.from_numpy(array)
        return tensor.to("cpu" if self._machine.emulated else "cuda")

    def eager(self) -> Contestant:
        function = self._make(self._torch, self._shape)
        return self._contestant(EAGER, self._bound(function))

    def captured(self) -> Contestant:
        """The eager calls as one CUDA graph, which is what fuel replays too."""
        if self._machine.emulated:
            raise Absent("torch captures graphs on a GPU alone")
        torch, call = self._torch, self._bound(self._make(self._torch, self._shape))
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                results = call()
        except RuntimeError as error:
            raise Absent(f"torch cannot capture it: {one_line(error)}") from None
        self._machine.bind_torch()

        def replay() -> Any:
            graph.replay()
            return results

        return self._contestant(CAPTURED, replay)

    def compiled(self) -> Contestant:
        """Through the inductor; compiled here, once."""
        call = self._bound(self._torch.compile(self._make(self._torch, self._shape)))
        try:
            call()
        except Exception as error:  # whatever the inductor or the compilers it needs may raise
            raise Absent(f"{COMPILED} failed: {one_line(error)}") from None
        return self._contestant(COMPILED, call)

    def _bound(self, function: Function) -> Callable[[], Any]:
        torch, tensors = self._torch, self._tensors

        def call() -> Any:
            with torch.inference_mode():
                return function(*tensors)

        return call

    def _contestant(self, name: str, call: Callable[[], Any]) -> Contestant:
        def values(results: Any) -> list[Array]:
            return [self._take(result).float().cpu().numpy() for result in results]

        return Contestant(name, call, values, self._machine.seconds)


def kernel_copy(machine: Machine, elements: int) -> Contestant:
    """A kernel of torch's that reads and writes so many f32. Raises `Absent`."""
    torch = machine.torch
    device = "cpu" if machine.emulated else "cuda"
    source = torch.ones(elements, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    call = lambda: torch.neg(source, out=target)  # noqa: E731
    return Contestant(KERNEL, call, clock=machine.seconds, is_yardstick=True)


def cupy_product(machine: Machine, operands: Sequence[Array], take: Take) -> Contestant:
    """The product by cuBLAS, where torch is not there to ask for it. Raises `Absent`."""
    cupy, stream = machine.cupy, machine.stream
    with stream:
        a, b = (cupy.asarray(operand) for operand in operands)

    def call() -> Any:
        with stream:
            return cupy.matmul(a, b)

    try:
        call()
    except Exception as error:  # cuBLAS is loaded at the first call, and may not be there
        raise Absent(f"CuPy has no product: {one_line(error)}") from None
    return Contestant(CUPY, call, lambda result: [take(result).get()], machine.seconds)


def bare_graph(machine: Machine, clock: Clock) -> Contestant:
    """A graph of one small piece of work, launched by CuPy alone. Raises `Absent`."""
    cupy, stream = machine.cupy, machine.stream
    memory = cupy.cuda.alloc(1024)
    stream.begin_capture()
    cupy.cuda.runtime.memsetAsync(memory.ptr, 0, 1024, stream.ptr)
    graph = stream.end_capture()

    def call() -> Any:
        graph.launch(stream)
        return memory

    return Contestant(GRAPH, call, clock=clock, is_yardstick=True)
