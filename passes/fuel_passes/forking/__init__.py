# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several ways to compute one thing become the arms of a branch."""
