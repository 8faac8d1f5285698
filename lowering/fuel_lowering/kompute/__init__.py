# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Kompute target: GLSL compute shaders for Vulkan devices."""
