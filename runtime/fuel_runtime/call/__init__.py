# SPDX-License-Identifier: MIT OR Apache-2.0
"""What happens in a call of an executable."""
