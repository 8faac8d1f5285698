# SPDX-License-Identifier: MIT OR Apache-2.0
"""A module evaluated op by op with the reference."""
