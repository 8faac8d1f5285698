# SPDX-License-Identifier: MIT OR Apache-2.0
"""The executable definition of every op, in plain NumPy."""
