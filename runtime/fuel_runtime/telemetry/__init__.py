# SPDX-License-Identifier: MIT OR Apache-2.0
"""Samples the signals of devices while programs run."""
