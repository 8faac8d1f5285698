# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans the memory of an optimised function: lifetimes, places that are shared, and the peak."""
