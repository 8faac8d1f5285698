# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which kernel runs where, at what price."""
