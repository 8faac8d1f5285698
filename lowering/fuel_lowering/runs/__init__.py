# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs as launches on buffers, shared by all targets that launch."""
