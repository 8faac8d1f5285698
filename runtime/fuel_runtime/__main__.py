# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command as a process: `fuel-run`, or `python -m fuel_runtime`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command; what it needs is imported here, where an interrupt is no traceback."""
    try:
        from fuel_runtime.cli.main import command
    except KeyboardInterrupt:
        return 130
    return command()


if __name__ == "__main__":
    sys.exit(main())
