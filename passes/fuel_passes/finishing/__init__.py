# SPDX-License-Identifier: MIT OR Apache-2.0
"""Passes after the plan: copies, order, runs, buffers."""
