# SPDX-License-Identifier: MIT OR Apache-2.0
"""Elementwise ops at a point."""
