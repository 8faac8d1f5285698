# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pieces of the planner: prices and, later, candidates, filters, frontier and placement."""
