"""The real command line: in this process for speed, or as a program of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.surfaces.cli.app import run

__all__ = ["AWR", "Outcome", "call", "spawn", "tree"]

#: How the program is started as another process.
AWR = (sys.executable, "-m", "awr")


class Outcome(msgspec.Struct, frozen=True):
    """The exit code of one command and what it printed."""

    code: int
    out: str
    err: str

    def value(self) -> Any:
        """Return the JSON object of a success; its error stream must be empty."""
        assert self.code == 0, self
        assert self.err == "", self
        return json.loads(self.out)

    def error(self, code: str, *, exit_code: int = 1) -> dict[str, Any]:
        """Return the JSON error on standard error; nothing may be on standard output."""
        assert (self.code, self.out) == (exit_code, ""), self
        found: dict[str, Any] = json.loads(self.err)
        assert found["code"] == code, self
        assert found["message"]
        return found


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Outcome:
    """Run one command line in this process."""
    capsys.readouterr()
    code = run([str(word) for word in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return Outcome(code, captured.out, captured.err)


def spawn(
    *arguments: str | Path,
    cwd: Path | None = None,
    stdin: bytes = b"",
    environment: dict[str, str] | None = None,
    preexec: Callable[[], None] | None = None,
) -> Outcome:
    """Run one command line as another process, with warnings as errors."""
    done = subprocess.run(
        [*AWR, *map(str, arguments)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=120,
        preexec_fn=preexec,
        env={**os.environ, "PYTHONWARNINGS": "error", **(environment or {})},
    )
    outcome = Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in outcome.out + outcome.err, outcome
    return outcome


def tree(folder: Path) -> dict[str, str]:
    """Return every path below a folder with what it is: a hash, a link's target, or a folder.

    SQLite's two files beside a database are left out: a reader that comes after a writer has left makes them again.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name.endswith((".db-shm", ".db-wal")):
            continue
        if path.is_symlink():
            kind = f"link to {path.readlink()}"
        elif path.is_file():
            kind = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            kind = "folder" if path.is_dir() else "other"
        found[str(path.relative_to(folder))] = kind
    return found
