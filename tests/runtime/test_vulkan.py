# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Vulkan driver: memory, launches, limits, threads and the end of the process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from xdsl.dialects.builtin import TensorType, f32

from effort import SLOW
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.context import parse_module
from fuel_dialect.errors import DeviceTimeout, DeviceUnavailable, LoweringError, OutOfMemory
from fuel_dialect.ops.control import RunOp
from fuel_lowering.runs.launches import Buffer, DeviceKernel, DeviceRun, Launch, Parameter
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.interface import BoundLaunch
from fuel_runtime.devices.vulkan import driver as vulkan
from fuel_runtime.devices.vulkan import facts as vulkan_facts
from fuel_runtime.devices.vulkan.driver import Memory, VulkanDriver, open_vulkan
from fuel_runtime.devices.watchdog import Watchdog

DEVICE = DeviceAttr.of("vulkan:0")
MEBIBYTE = 1 << 20

WAYS = ("shared", "staged", "shared bounded", "staged bounded")

pytestmark = pytest.mark.needs_vulkan


def opened(staged: bool | None = None, **facts: Any) -> VulkanDriver:
    """A driver of the first device, whose memory and limits may be told otherwise."""
    known = replace(vulkan_facts.list_devices()[0], **facts)
    return VulkanDriver(DEVICE, vulkan._opened(0), known, staged)


@pytest.fixture(params=WAYS, ids=WAYS)
def driver(request: pytest.FixtureRequest) -> Iterator[VulkanDriver]:
    """
    Memory that the host sees, and memory of the device's own, as a discrete GPU has it; runs that
    are waited for as they begin, and those whose steps are submitted one by one.
    """
    memory, _, bounded = request.param.partition(" ")
    made = opened(staged=memory == "staged")
    if bounded:
        made.watchdog = Watchdog("vulkan:0")
        made.watchdog.bound(60)
    yield made
    made.close()
    assert made.free_bytes() == made.total_bytes()


def shader(
    body: str, writes: str, scalars: str = "", size: int = 64, names: str = ""
) -> DeviceKernel:
    """A kernel on buffers `a`, `b`... of ints; `writes` has a letter for each: r or w."""
    buffers = "\n".join(
        f"layout(binding = {i}) {'readonly' if kind == 'r' else 'coherent'} buffer "
        f"{name.upper()} {{ int {name}[]; }};"
        for i, (name, kind) in enumerate(zip("abcd", writes, strict=False))
    )
    members = " ".join(f"int {name};" for name in scalars.split())
    push = f"layout(push_constant) uniform Scalars {{ {members} }};" if members else ""
    source = (
        f"#version 450\nlayout(local_size_x = {size}) in;\n{buffers}\n{push}\n{names}\n"
        f"void main() {{ uint i = gl_GlobalInvocationID.x; {body} }}\n"
    )
    parameters = tuple(
        Parameter(name, "i32", 64, kind == "w") for name, kind in zip("abcd", writes, strict=False)
    )
    return DeviceKernel("kernel", source, parameters, tuple(scalars.split()))


def launch(
    driver: VulkanDriver, kernel: DeviceKernel, *handles: Memory, scalars: tuple[int, ...] = ()
) -> BoundLaunch:
    return BoundLaunch(driver.load(kernel), handles, (0,) * len(handles), scalars, (1, 1, 1))


def ints(driver: VulkanDriver, *values: int, count: int = 64) -> Memory:
    memory = driver.allocate(4 * count)
    driver.write(memory, np.resize(np.array(values, np.int32), count).view(np.uint8))
    return memory


def of(driver: VulkanDriver, memory: Memory) -> list[int]:
    host = np.empty(memory.bytes.size, np.uint8)
    driver.read(memory, host)
    return host.view(np.int32).tolist()


# What there is.


def test_facts_are_those_that_kompute_tells() -> None:
    import kp  # pyright: ignore[reportMissingImports]

    facts, told = vulkan_facts.list_devices(), kp.Manager().list_devices()
    assert len(facts) == len(told)
    for ours, theirs in zip(facts, told, strict=True):
        assert ours.name == theirs["device_name"]
        assert ours.group_counts == theirs["max_work_group_count"]
        assert ours.group_sizes == theirs["max_work_group_size"]
        assert ours.group_invocations == theirs["max_work_group_invocations"]
        assert ours.shared >= 16 << 10
        assert ours.push_constants >= 128
        assert ours.storage_range >= 1 << 27
        assert ours.heap > 0


def test_a_driver_says_what_it_is() -> None:
    driver = open_vulkan(DEVICE)
    facts = driver.facts
    assert driver.identity == f"{facts.name}, {facts.kind}, driver {facts.driver_version}"
    assert driver.limits.largest_buffer_bytes == min(facts.storage_range, (1 << 32) - 16)
    assert driver.limits.on_host_cores == (facts.kind == "CPU")


def test_an_ordinal_that_is_not_there() -> None:
    with pytest.raises(DeviceUnavailable, match=r"no #?.*vulkan:77.*; the loader lists \d+ Vulkan"):
        open_vulkan(DeviceAttr.of("vulkan:77"))


def test_without_kompute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulkan, "find_spec", lambda name: None)
    with pytest.raises(DeviceUnavailable, match="make kompute"):
        open_vulkan(DEVICE)


def test_without_a_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulkan_facts, "LOADER", "libno-such-loader.so.1")
    with pytest.raises(DeviceUnavailable, match=r"libno-such-loader.so.1 is not installed"):
        open_vulkan(DEVICE)


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulkan, "list_devices", lambda: ())
    with pytest.raises(DeviceUnavailable, match="the loader lists 0 Vulkan devices"):
        open_vulkan(DEVICE)


# Memory.


def test_memory_keeps_what_is_written(driver: VulkanDriver) -> None:
    memory = driver.allocate(64)
    data = np.arange(64, dtype=np.uint8)
    driver.write(memory, data)
    driver.write(memory, np.full(5, 200, np.uint8), offset=7)
    host = np.empty(64, np.uint8)
    driver.read(memory, host)
    data[7:12] = 200
    np.testing.assert_array_equal(host, data)
    driver.zero(memory, 10)
    driver.read(memory, host[:16])
    assert host[:16].tolist() == [0] * 10 + [200, 200, 12, 13, 14, 15]


def test_a_part_is_written_into_what_a_kernel_wrote(driver: VulkanDriver) -> None:
    memory = ints(driver, 1)
    driver.replay(driver.record([launch(driver, shader("a[i] = int(i);", "w"), memory)]))
    driver.write(memory, np.array([-1], np.int32).view(np.uint8), offset=8)
    assert of(driver, memory)[:4] == [0, 1, -1, 3]


@pytest.mark.parametrize("count", [64, 32])
def test_copies(driver: VulkanDriver, count: int) -> None:
    source, destination = ints(driver, 5, 6), ints(driver, 9, count=count)
    driver.replay(driver.record([launch(driver, shader("a[i] += 1;", "w"), source)]))
    driver.copy(source, destination, 4 * count)
    assert of(driver, destination) == [6, 7] * (count // 2)
    assert of(driver, source) == [6, 7] * 32


def test_memory_is_counted(driver: VulkanDriver) -> None:
    total = driver.total_bytes()
    first, second = driver.allocate(MEBIBYTE), driver.allocate(2 * MEBIBYTE)
    assert driver.free_bytes() == total - 3 * MEBIBYTE
    driver.free(first)
    assert driver.free_bytes() == total - 2 * MEBIBYTE
    driver.free(second)
    assert driver.free_bytes() == total


def test_more_than_the_heap() -> None:
    driver = opened(heap=MEBIBYTE)
    kept = driver.allocate(MEBIBYTE - 1024)
    with pytest.raises(OutOfMemory, match=r"vulkan:0.*: 2,048 bytes are wanted, 1,024 are free"):
        driver.allocate(2048)
    driver.free(kept)
    driver.free(driver.allocate(2048))


def test_more_than_a_buffer_may_have() -> None:
    driver = opened(storage_range=4096)
    with pytest.raises(OutOfMemory, match=r"8,192 bytes are wanted in one buffer, .* 4,096"):
        driver.allocate(8192)


def test_more_allocations_than_the_device_takes() -> None:
    driver = opened(allocations=4)
    kept = [driver.allocate(16), driver.allocate(16)]
    with pytest.raises(OutOfMemory, match="2 buffers are as many as the device takes"):
        driver.allocate(16)
    for memory in kept:
        driver.free(memory)


# Launches.


def test_integers_arrive_as_integers(driver: VulkanDriver) -> None:
    """Kompute reads push constants of an algorithm as floats (kompute#425)."""
    memory = ints(driver, 0)
    kernel = shader("if (i == 0) { a[0] = p; a[1] = q; a[2] = r; }", "w", scalars="p q r")
    scalars = (1, -7, 0x7FC00001)
    driver.replay(driver.record([launch(driver, kernel, memory, scalars=scalars)]))
    assert of(driver, memory)[:3] == list(scalars)


def test_launches_of_one_kernel_keep_their_own_scalars(driver: VulkanDriver) -> None:
    memory = ints(driver, 0)
    kernel = shader("if (i == 0) a[p] = p;", "w", scalars="p")
    launches = [launch(driver, kernel, memory, scalars=(p,)) for p in range(1, 20)]
    driver.replay(driver.record(launches))
    assert of(driver, memory)[:21] == [*range(20), 0]


def test_dependent_launches_see_what_was_written(driver: VulkanDriver) -> None:
    memory = [ints(driver, 0) for _ in range(3)]
    step = shader("b[i] = a[i] * 3 + 1;", "rw")
    order = [i % 3 for i in range(31)]
    launches = [
        launch(driver, step, memory[source], memory[destination])
        for source, destination in pairwise(order)
    ]
    recording = driver.record(launches)
    wanted = 0
    for _ in range(30):
        wanted = (wanted * 3 + 1) & 0xFFFFFFFF
    for _ in range(3):
        driver.write(memory[0], np.zeros(256, np.uint8))
        driver.replay(recording)
        assert np.uint32(of(driver, memory[0])[0] & 0xFFFFFFFF) == np.uint32(wanted)


@pytest.mark.parametrize(
    ("pattern", "barriers"),
    [
        ("0>1 2>3", 0),
        ("0>1 0>2", 0),
        ("0>1 1>2", 1),
        ("0>1 2>0", 1),
        ("0>1 2>1", 1),
        ("0>1 1>2 2>3", 2),
        ("0>1 1>2 0>3", 1),
    ],
)
def test_barriers_stand_where_memory_is_shared(
    driver: VulkanDriver, monkeypatch: pytest.MonkeyPatch, pattern: str, barriers: int
) -> None:
    memory = [ints(driver, 0) for _ in range(4)]
    kernel = driver.load(shader("b[i] = a[i];", "rw"))
    launches = [
        BoundLaunch(kernel, (memory[int(pair[0])], memory[int(pair[2])]), (0, 0), (), (1, 1, 1))
        for pair in pattern.split()
    ]
    put: list[None] = []
    real = driver._kompute.barrier
    monkeypatch.setattr(driver._kompute, "barrier", lambda: (put.append(None), real())[1])
    driver.record(launches)
    assert len(put) == barriers


def test_a_launch_of_nothing(driver: VulkanDriver) -> None:
    memory = ints(driver, 7)
    one = launch(driver, shader("a[i] = 1;", "w"), memory)
    recording = driver.record([replace(one, grid=(4, 0, 1))])
    driver.replay(recording)
    driver.discard(recording)
    assert of(driver, memory)[0] == 7


def test_a_grid_of_three_axes(driver: VulkanDriver) -> None:
    memory = ints(driver, 0)
    body = (
        "uvec3 g = gl_WorkGroupID; a[(g.z * 3 + g.y) * 2 + g.x] = int(g.x + 10 * g.y + 100 * g.z);"
    )
    one = launch(driver, shader(body, "w", size=1), memory)
    driver.replay(driver.record([replace(one, grid=(2, 3, 4))]))
    wanted = [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]
    assert of(driver, memory)[: len(wanted)] == wanted


# Limits.


def test_a_grid_beyond_the_limits(driver: VulkanDriver) -> None:
    one = launch(driver, shader("a[i] = 1;", "w"), ints(driver, 0))
    most = driver.facts.group_counts
    with pytest.raises(LoweringError, match=r"workgroups are wanted.*has to fold its grid"):
        driver.record([replace(one, grid=(1, most[1] + 1, 1))])


def test_offsets_are_scalars(driver: VulkanDriver) -> None:
    one = launch(driver, shader("a[i] = 1;", "w"), ints(driver, 0))
    with pytest.raises(LoweringError, match=r"byte offsets \(16,\).*take them as scalars"):
        driver.record([replace(one, byte_offsets=(16,))])


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (
            shader("a[i] = int(double(i));", "w"),
            "it needs Float64, and Kompute enables no optional",
        ),
        (
            shader("big[i] = 1; a[i] = big[0];", "w", names="shared int big[5000];"),
            r"it takes 20,000 bytes of shared memory, and the device has 16,384",
        ),
        (
            shader("a[i] = 1;", "w", size=256),
            r"its workgroups are \(256, 1, 1\); the device runs 128",
        ),
        (
            shader("a[i] = s0;", "w", scalars=" ".join(f"s{i}" for i in range(33))),
            "it takes 132 bytes of push constants, and the device has 128",
        ),
        (shader("a[i] = b[i] + c[i] + d[i];", "wrrr"), "it takes 4 buffers, and the device has 3"),
    ],
)
def test_a_kernel_beyond_the_limits(kernel: DeviceKernel, why: str) -> None:
    facts: dict[str, Any] = dict(
        shared=16 << 10, group_invocations=128, push_constants=128, storage_buffers=3
    )
    with pytest.raises(LoweringError, match=f"kernel kernel cannot run on .*vulkan:0.*: {why}"):
        opened(**facts).load(kernel)


# Growth, threads, the end.


def test_nothing_grows(driver: VulkanDriver) -> None:
    memory = ints(driver, 0)
    one = launch(driver, shader("a[i] += 1;", "w"), memory)
    recording = driver.record([one])
    data, host = np.zeros(256, np.uint8), np.empty(256, np.uint8)

    def call() -> None:
        driver.write(memory, data)
        driver.replay(recording)
        driver.read(memory, host)

    def bind() -> None:
        fresh = driver.allocate(MEBIBYTE)
        bound = driver.record([replace(one, handles=(fresh,))])
        driver.replay(bound)
        driver.discard(bound)
        driver.free(fresh)

    process = psutil.Process()

    def grown(work: Callable[[], None], times: int) -> int:
        gc.collect()
        before = process.memory_info().rss
        for _ in range(times):
            work()
        gc.collect()
        return process.memory_info().rss - before

    for work, times in ((call, 2000), (bind, 100)):
        for _ in range(20):
            work()
        free = driver.free_bytes()
        # What leaks grows each time; an allocator keeps what it took once.
        assert min(grown(work, times) for _ in range(2)) < 4 * MEBIBYTE
        assert driver.free_bytes() == free
    assert host.view(np.int32).tolist() == [1] * 64


def add_run(elements: int) -> DeviceRun:
    source = (
        "#version 450\nlayout(local_size_x = 64) in;\n"
        "layout(binding = 0) readonly buffer A { float a[]; };\n"
        "layout(binding = 1) readonly buffer B { float b[]; };\n"
        "layout(binding = 2) coherent writeonly buffer C { float c[]; };\n"
        "void main() {\n  uint i = gl_GlobalInvocationID.x;\n"
        f"  if (i < {elements}u) c[i] = a[i] + b[i];\n}}\n"
    )
    parameters = tuple(Parameter(name, "f32", elements, name == "c") for name in "abc")
    type = TensorType(f32, [elements])
    return DeviceRun(
        entry="add",
        target="kompute",
        kernels=(DeviceKernel("add", source, parameters),),
        buffers=(
            Buffer("input", "f32", elements, 0),
            Buffer("input", "f32", elements, 1),
            Buffer("output", "f32", elements, 0),
        ),
        launches=(Launch(0, (0, 1, 2), (0, 0, 0), (), (-(-elements // 64), 1, 1)),),
        inputs=(type, type),
        outputs=(type,),
        constants={},
        weights={},
    )


def unused(run: Any, entry: str) -> DeviceRun:
    raise AssertionError("nothing is lowered here")


def test_two_threads_at_once(driver: VulkanDriver) -> None:
    within = driver.watchdog.within
    device = BufferDevice(DeviceAttr.of("vulkan:0"), driver, {"kompute": unused})
    if within is not None:
        device.answer_within(within)
    add = device.load([add_run(1000)], {})["add"]
    failures: list[str] = []

    def work(base: int) -> None:
        for i in range(100):
            x = np.full(1000, base + i, np.float32)
            (y,) = add(device.put(x), device.put(x * 2))
            if not np.array_equal(device.get(y), x * 3):
                failures.append(f"{base + i}")

    threads = [threading.Thread(target=work, args=(base,)) for base in (0, 10_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    device.close()


@pytest.mark.parametrize("driver", WAYS[:2], indirect=True)
def test_kompute_holds_the_gil(driver: VulkanDriver) -> None:
    """If this fails, Kompute has been mended: runs on Vulkan may overlap with the host's now."""
    memory = ints(driver, 0)
    body = "int s = 0; for (int k = 0; k < 60000; k++) s += a[k & 63]; a[i] = s;"
    one = launch(driver, shader(body, "w"), memory)
    recording = driver.record([replace(one, grid=(64, 1, 1))])
    go, ran = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (go.wait(), ran.set()))
    interval = sys.getswitchinterval()
    thread.start()
    try:
        sys.setswitchinterval(1000)  # only who gives the GIL up loses it
        go.set()
        driver.replay(recording)
        overlapped = ran.is_set()
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    assert not overlapped


PROGRAM = """
import gc
import numpy as np
from test_vulkan import add_run, opened, unused
from fuel_dialect.attributes import DeviceAttr
from fuel_runtime.devices.vulkan import driver as vulkan
from fuel_runtime.devices.buffer_device import BufferDevice
driver = opened(staged={staged})
device = BufferDevice(DeviceAttr.of("vulkan:0"), driver, {{"kompute": unused}})
run = device.load([add_run(1000)], {{}})["add"]
x = device.put(np.ones(1000, np.float32))
(value,) = run(x, x)
assert device.get(value)[999] == 2
del x
"""

FORK = """
if (pid := os.fork()) == 0:
    exec({program!r}, {{}})
    sys.exit(0)
if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
    sys.exit("exit code %d after:" % code + {program!r})
"""
"""Every process is new to Vulkan; what they share is what is imported."""


def ends() -> list[str]:
    names = ("driver", "device", "run", "value")
    deletions = [
        "\n".join(f"del {name}; gc.collect()" for name in order) for order in permutations(names)
    ]
    return [
        *deletions[::8],
        "",
        "import builtins; builtins.kept = [value, run, device, driver]; del value, run",
        "vulkan._close_all(); device.close()",
        "device.close()",
        "device.close(); del device, run",
        "driver.close()",
    ]


@SLOW
@pytest.mark.parametrize("staged", [False, True])
def test_the_end_in_any_order(staged: bool) -> None:
    programs = [PROGRAM.format(staged=staged) + end for end in ends()]
    script = "import os, sys, test_vulkan\n" + "".join(
        FORK.format(program=program) for program in programs
    )
    in_a_process(script)


def in_a_process(script: str) -> None:
    """Runs a script that may import this file, to its end."""
    here = Path(__file__).resolve().parent
    path = os.pathsep.join(filter(None, (str(here.parent), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import sys; exec(sys.stdin.read())"],
        input=script,
        cwd=here,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")


LEFT = """
import os, sys
import numpy as np
import fuel_dialect as fuel
from fuel_dialect.errors import DeviceUnavailable
from fuel_runtime import Session
g = fuel.Graph()
module = g.build(g.input((300,), "f32", name="x").exp())
session = Session(devices="cpu,vulkan:0")
exe = session.compile(module, place={"exp": "vulkan:0"}, results="vulkan:0")
x = np.zeros(300, np.float32)
(y,) = exe(x)
if (pid := os.fork()) == 0:
    uses = (
        lambda: exe(x),
        lambda: np.asarray(y),
        lambda: session.put(x, "vulkan:0"),
        lambda: Session(devices="vulkan:0"),
    )
    for use in uses:
        try:
            use()
        except DeviceUnavailable as error:
            assert "opened before this process was forked" in str(error)
        else:
            sys.exit(1)
    (z,) = Session(devices="cpu").compile(module)(x)
    assert z[299] == 1
    del exe, y, session
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert np.asarray(exe(x)[0])[299] == np.asarray(y)[299] == 1
"""


def test_a_forked_child_is_told_that_the_device_stayed_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LEFT],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


LONG = "int s = a[i]; for (int k = 0; k < 60000; k++) s = s * 3 + k % 7; a[i] = s;"
"""Takes a second on a CPU in some hundred workgroups."""


def long_launch(driver: VulkanDriver, memory: Memory) -> BoundLaunch:
    return replace(launch(driver, shader(LONG, "w"), memory), grid=(600, 1, 1))


@pytest.mark.parametrize("staged", [False, True])
def test_a_device_that_is_late_is_left_alone_and_used_again(staged: bool) -> None:
    driver = opened(staged)
    device = BufferDevice(DEVICE, driver, {"kompute": unused})
    count = 64 * 600
    memory = ints(driver, 1, count=count)
    recording = driver.record([long_launch(driver, memory)])
    driver.replay(recording)
    want = of(driver, memory)
    driver.write(memory, np.ones(count, np.int32).view(np.uint8))
    device.answer_within(0.02)
    other = device.put(np.arange(4))
    device.synchronise()
    driver.replay(recording)  # the one of before there was a bound
    mark = device.mark()
    assert not mark.is_done()
    uses = (lambda: device.get(other), lambda: device.put(np.arange(4)), device.synchronise)
    for use in uses:
        with pytest.raises(DeviceTimeout, match="vulkan:0 does not answer"):
            use()
    mark.wait()
    np.testing.assert_array_equal(device.get(other), np.arange(4))
    assert of(driver, memory) == want
    device.close()


def test_the_host_goes_on_while_a_bounded_device_works() -> None:
    driver = opened()
    device = BufferDevice(DEVICE, driver, {"kompute": unused})
    device.answer_within(60)
    memory = ints(driver, 1, count=64 * 600)
    driver.replay(driver.record([long_launch(driver, memory)]))
    mark, ran = device.mark(), threading.Event()
    waiter = threading.Thread(target=lambda: (device.wait(mark), ran.set()))
    waiter.start()
    assert not ran.is_set()
    waiter.join()
    assert ran.is_set()
    device.close()


@pytest.mark.parametrize("driver", WAYS[2:], indirect=True)
def test_an_interrupt_between_two_submissions(
    driver: VulkanDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = ints(driver, 0)
    one = launch(driver, shader("a[i] += 1;", "w"), memory)
    recording = driver.record([one, one])
    driver.synchronise()
    submit, count = driver._kompute.submit, iter(range(9))

    def interrupted(sequence: Any, step: Any) -> None:
        if next(count) == 1:
            raise KeyboardInterrupt
        submit(sequence, step)

    monkeypatch.setattr(driver._kompute, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        driver.replay(recording)
    monkeypatch.undo()
    assert of(driver, memory) == [1] * 64
    driver.replay(recording)
    assert of(driver, memory) == [3] * 64


LATE = """
import numpy as np
from test_vulkan import BufferDevice, DEVICE, ints, long_launch, opened, unused
from fuel_runtime.devices.vulkan.driver import open_vulkan
driver = open_vulkan(DEVICE)
device = BufferDevice(DEVICE, driver, {"kompute": unused})
device.answer_within(0.02)
memory = ints(driver, 1, count=64 * 600)
recording = driver.record([long_launch(driver, memory)])
driver.synchronise()
driver.replay(recording)
"""


@pytest.mark.parametrize("end", ["", "device.close()", "del device, driver, memory, recording"])
def test_a_process_ends_while_the_device_is_late(end: str) -> None:
    in_a_process(LATE + end)


def test_runs_are_fitted_to_the_kind_of_device() -> None:
    text = """
func.func @main(%x: T) -> T {
  %r = fuel.run on #fuel.target<vulkan:0, "kompute"> (%y = %x : T) -> T {
    %k = fuel.kernel reduction "softmax" (%z = %y : T) -> T {
      %s = fuel.softmax_last_dim %z : T
      fuel.yield %s : T
    }
    fuel.yield %k : T
  }
  func.return %r : T
}
""".replace(" T", " tensor<4x4096xf32>")
    (run,) = (op for op in parse_module(text).walk() if isinstance(op, RunOp))
    sources = {
        name: opened(kind=name).lowerings["kompute"](run, "main").source
        for name in ("CPU", "discrete GPU")
    }
    assert "local_size_x = 64" in sources["CPU"]
    assert "local_size_x = 256" in sources["discrete GPU"]
