# SPDX-License-Identifier: MIT OR Apache-2.0
"""Devices that are emulated on the host."""
