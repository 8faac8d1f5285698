# SPDX-License-Identifier: MIT OR Apache-2.0
"""Forms of kernels, shared by all targets."""
