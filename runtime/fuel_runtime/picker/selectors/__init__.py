# SPDX-License-Identifier: MIT OR Apache-2.0
"""The selectors of a picker, one a file: each drops, demotes or prices arms."""
