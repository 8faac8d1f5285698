# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which arm of a branch runs, and why: pure functions."""
