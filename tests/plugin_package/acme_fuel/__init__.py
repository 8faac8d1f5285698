# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a package adds to fuel; `docs/plugins.md` explains it file by file."""
