# SPDX-License-Identifier: MIT OR Apache-2.0
"""The host as a device."""
