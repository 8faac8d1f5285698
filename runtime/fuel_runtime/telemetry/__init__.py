# SPDX-License-Identifier: MIT OR Apache-2.0
"""What devices say of themselves while programs run."""
