# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes a call of an executable: arguments, route, walk, state, report."""
