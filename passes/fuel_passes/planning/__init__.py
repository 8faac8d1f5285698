# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decides which kernel runs on which target, by price."""
