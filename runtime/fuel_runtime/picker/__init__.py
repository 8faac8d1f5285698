# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decides which arm of a branch runs, and says why: pure functions."""
