# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-run`: flags, the arrays of a call, running, printing."""
