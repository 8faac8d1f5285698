# SPDX-License-Identifier: MIT OR Apache-2.0
"""Passes from IR to IR. One pass, one file."""
