# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a module to an executable."""
