# SPDX-License-Identifier: MIT OR Apache-2.0
"""Adds to fuel what a package can add; `docs/plugins.md` explains it file by file."""
