# SPDX-License-Identifier: MIT OR Apache-2.0
"""From runs to code, one folder a target."""
