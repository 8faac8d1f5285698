# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Lists the Vulkan devices of this machine and what they can do, as the loader says.

Kompute tells a fraction of it. The structures are those of the Vulkan specification; they are read
through an instance of our own, which is gone when `list_devices` returns.
"""

from __future__ import annotations

import ctypes
from ctypes import Structure, byref, c_char, c_char_p, c_int32, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from fuel_dialect.errors import DeviceUnavailable

LOADER = "libvulkan.so.1"

SUCCESS = 0
APPLICATION_INFO = 0
INSTANCE_CREATE_INFO = 1
API_VERSION = (1 << 22) | (1 << 12)
"""Vulkan 1.1, the first that reads SPIR-V 1.3."""

INTEGRATED_GPU, DISCRETE_GPU, VIRTUAL_GPU, CPU = 1, 2, 3, 4
KINDS = {
    INTEGRATED_GPU: "integrated GPU",
    DISCRETE_GPU: "discrete GPU",
    VIRTUAL_GPU: "virtual GPU",
    CPU: "CPU",
}

DEVICE_LOCAL = 1

LIMITS_BYTES = 504
SPARSE_BYTES = 20
"""The bytes of `VkPhysicalDeviceLimits` and `VkPhysicalDeviceSparseProperties`, 64-bit."""


@dataclass(frozen=True)
class VulkanFacts:
    """One device; sizes in bytes."""

    name: str
    kind: str
    vendor: int
    driver_version: int
    storage_range: int
    push_constants: int
    allocations: int
    storage_buffers: int
    shared: int
    group_counts: tuple[int, int, int]
    group_invocations: int
    group_sizes: tuple[int, int, int]
    heap: int
    """The heap that memory of the device alone comes from."""

    @property
    def on_host_cores(self) -> bool:
        """True if its shaders run on the host's cores."""
        return self.kind == KINDS[CPU]

    @property
    def shares_memory(self) -> bool:
        """True if its memory is the host's, so that a copy that the host sees is not needed."""
        return self.kind in (KINDS[CPU], KINDS[INTEGRATED_GPU])


class _ApplicationInfo(Structure):
    _fields_ = [
        ("sType", c_int32),
        ("pNext", c_void_p),
        ("pApplicationName", c_char_p),
        ("applicationVersion", c_uint32),
        ("pEngineName", c_char_p),
        ("engineVersion", c_uint32),
        ("apiVersion", c_uint32),
    ]


class _InstanceCreateInfo(Structure):
    _fields_ = [
        ("sType", c_int32),
        ("pNext", c_void_p),
        ("flags", c_uint32),
        ("pApplicationInfo", c_void_p),
        ("enabledLayerCount", c_uint32),
        ("ppEnabledLayerNames", c_void_p),
        ("enabledExtensionCount", c_uint32),
        ("ppEnabledExtensionNames", c_void_p),
    ]


class _Limits(Structure):
    """`VkPhysicalDeviceLimits` up to the limits of compute shaders."""

    _fields_ = [
        ("images", c_uint32 * 6),
        ("maxUniformBufferRange", c_uint32),
        ("maxStorageBufferRange", c_uint32),
        ("maxPushConstantsSize", c_uint32),
        ("maxMemoryAllocationCount", c_uint32),
        ("maxSamplerAllocationCount", c_uint32),
        ("granularities", c_uint64 * 2),
        ("maxBoundDescriptorSets", c_uint32),
        ("maxPerStageDescriptorSamplers", c_uint32),
        ("maxPerStageDescriptorUniformBuffers", c_uint32),
        ("maxPerStageDescriptorStorageBuffers", c_uint32),
        ("descriptors", c_uint32 * 12),
        ("vertices", c_uint32 * 5),
        ("tessellation", c_uint32 * 8),
        ("geometry", c_uint32 * 5),
        ("fragments", c_uint32 * 4),
        ("maxComputeSharedMemorySize", c_uint32),
        ("maxComputeWorkGroupCount", c_uint32 * 3),
        ("maxComputeWorkGroupInvocations", c_uint32),
        ("maxComputeWorkGroupSize", c_uint32 * 3),
    ]


class _Properties(Structure):
    _fields_ = [
        ("apiVersion", c_uint32),
        ("driverVersion", c_uint32),
        ("vendorID", c_uint32),
        ("deviceID", c_uint32),
        ("deviceType", c_int32),
        ("deviceName", c_char * 256),
        ("pipelineCacheUUID", c_char * 16),
        ("limits", _Limits),
        ("rest", c_char * (LIMITS_BYTES - ctypes.sizeof(_Limits) + SPARSE_BYTES)),
    ]


class _MemoryType(Structure):
    _fields_ = [("propertyFlags", c_uint32), ("heapIndex", c_uint32)]


class _MemoryHeap(Structure):
    _fields_ = [("size", c_uint64), ("flags", c_uint32)]


class _MemoryProperties(Structure):
    _fields_ = [
        ("memoryTypeCount", c_uint32),
        ("memoryTypes", _MemoryType * 32),
        ("memoryHeapCount", c_uint32),
        ("memoryHeaps", _MemoryHeap * 16),
    ]


def list_devices() -> tuple[VulkanFacts, ...]:
    """All devices, in the loader's order. Raises `DeviceUnavailable` without a loader."""
    library = _library()
    instance = c_void_p()
    application = _ApplicationInfo(sType=APPLICATION_INFO, apiVersion=API_VERSION)
    wanted = _InstanceCreateInfo(
        sType=INSTANCE_CREATE_INFO,
        pApplicationInfo=ctypes.cast(ctypes.pointer(application), c_void_p),
    )
    status = library.vkCreateInstance(byref(wanted), None, byref(instance))
    if status != SUCCESS:
        raise DeviceUnavailable(
            f"the Vulkan loader makes no instance (VkResult {status}); no driver is installed "
            "that serves Vulkan 1.1 (on Debian: mesa-vulkan-drivers, or the one of the GPU)"
        )
    try:
        return tuple(_facts(library, each) for each in _physical_devices(library, instance))
    finally:
        library.vkDestroyInstance(instance, None)


def _library() -> Any:
    try:
        library = ctypes.CDLL(LOADER)
    except OSError:
        raise DeviceUnavailable(
            f"the Vulkan loader {LOADER} is not installed (on Debian: libvulkan1)"
        ) from None
    pointer = c_void_p
    library.vkCreateInstance.argtypes = [pointer, pointer, pointer]
    library.vkEnumeratePhysicalDevices.argtypes = [pointer, pointer, pointer]
    library.vkDestroyInstance.argtypes = [pointer, pointer]
    library.vkDestroyInstance.restype = None
    for name in ("vkGetPhysicalDeviceProperties", "vkGetPhysicalDeviceMemoryProperties"):
        function = getattr(library, name)
        function.argtypes, function.restype = [pointer, pointer], None
    return library


def _physical_devices(library: Any, instance: c_void_p) -> list[c_void_p]:
    count = c_uint32()
    if library.vkEnumeratePhysicalDevices(instance, byref(count), None) != SUCCESS:
        return []
    devices = (c_void_p * count.value)()
    if library.vkEnumeratePhysicalDevices(instance, byref(count), devices) != SUCCESS:
        return []
    return [c_void_p(each) for each in devices[: count.value]]


def _facts(library: Any, device: c_void_p) -> VulkanFacts:
    properties, memory = _Properties(), _MemoryProperties()
    library.vkGetPhysicalDeviceProperties(device, byref(properties))
    library.vkGetPhysicalDeviceMemoryProperties(device, byref(memory))
    limits = properties.limits
    return VulkanFacts(
        name=properties.deviceName.decode(errors="replace"),
        kind=KINDS.get(properties.deviceType, "other device"),
        vendor=properties.vendorID,
        driver_version=properties.driverVersion,
        storage_range=limits.maxStorageBufferRange,
        push_constants=limits.maxPushConstantsSize,
        allocations=limits.maxMemoryAllocationCount,
        storage_buffers=limits.maxPerStageDescriptorStorageBuffers,
        shared=limits.maxComputeSharedMemorySize,
        group_counts=tuple(limits.maxComputeWorkGroupCount),
        group_invocations=limits.maxComputeWorkGroupInvocations,
        group_sizes=tuple(limits.maxComputeWorkGroupSize),
        heap=_device_heap(memory),
    )


def _device_heap(memory: _MemoryProperties) -> int:
    """The heap of the first type of memory that is the device's own: Kompute takes that one."""
    for each in memory.memoryTypes[: memory.memoryTypeCount]:
        if each.propertyFlags & DEVICE_LOCAL:
            return memory.memoryHeaps[each.heapIndex].size
    return max(heap.size for heap in memory.memoryHeaps[: memory.memoryHeapCount])
