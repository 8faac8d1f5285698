# SPDX-License-Identifier: MIT OR Apache-2.0
"""The example that is driven off its device three times, and comes back."""

from __future__ import annotations

import live_switching
import pytest


def test_it_moves_and_comes_back_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert live_switching.main() == 0
    assert "moved and came back once each" in capsys.readouterr().out
