# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Importing this makes what the tests and the examples share importable, from the same checkout.

That is `op_samples` and `op_modules` of the tests, and `make_weights` of the examples.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"

sys.path += [str(ROOT / "tests"), str(EXAMPLES)]
