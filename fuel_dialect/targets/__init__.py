# SPDX-License-Identifier: MIT OR Apache-2.0
"""What each target can run, at what cost: pure data."""
