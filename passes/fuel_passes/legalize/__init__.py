# SPDX-License-Identifier: MIT OR Apache-2.0
"""Passes that bring a program into the form the planner takes."""
