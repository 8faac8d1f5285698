# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rewrites that stock canonicalize applies to ops of the dialect."""
