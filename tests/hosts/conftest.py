"""Records of real hosts without their text, and the values that a correct reader finds in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "fixtures" / "hosts"


@pytest.fixture
def records() -> Path:
    """The folder of the records."""
    return FOLDER


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[..., Path]:
    """Write rows, given as objects or raw lines, to a file of the test's own folder."""

    def write(rows: Iterable[dict[str, Any] | bytes], name: str = "session.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    return write
