"""Keeps every test away from the home folder of the person who runs it."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

_numbers = count(1)
_UNSET = ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "FORCE_COLOR", "NO_COLOR")
_XDG = ("CONFIG", "DATA", "STATE", "CACHE")


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def home_folder(_homes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test an empty home folder of its own, outside the folder it works in."""
    home = _homes / str(next(_numbers))
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / ".claude"))
    monkeypatch.setenv("CODEX_HOME", str(home / ".codex"))
    for name in _XDG:
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / f".{name.lower()}"))
    for name in _UNSET:
        monkeypatch.delenv(name, raising=False)
    return home
