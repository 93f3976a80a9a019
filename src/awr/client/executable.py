"""AWR as a program, pinned by its digest. Each call leaves a receipt that was begun before the program ran."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from awr.client.transport import Outcome, WorkflowError
from awr.operations.registry import operation_named
from awr.operations.words import command_words

__all__ = ["Executable"]

TIMEOUT_SECONDS = 60.0
MAX_OUTPUT_BYTES = 16 * 1024 * 1024


class Executable:
    """Runs one pinned program, without a shell. It may be another build of AWR than this one.

    `binary` is absolute and has to have the SHA-256 `sha256`, now and before every call. A console script that an
    interpreter reads is pinned as a script: what it imports is not.
    """

    def __init__(
        self,
        binary: Path,
        *,
        sha256: str,
        version: str,
        project: Path,
        receipts: Path,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        if not binary.is_absolute():
            raise WorkflowError("the executable is named by an absolute path")
        self._binary = binary
        self._sha256 = sha256.lower()
        self._version = version
        self._project = project
        self._receipts = receipts
        self._timeout = timeout
        self._require_pinned()

    @property
    def identity(self) -> dict[str, str]:
        """Return the program, its digest and the version it has to say it is."""
        return {
            "program": str(self._binary),
            "sha256": self._sha256,
            "version": self._version,
            "transport": "executable",
        }

    def call(self, operation: str, arguments: dict[str, Any]) -> Outcome:
        """Run one command and keep its receipt. A timeout or a lost program leaves the outcome unknown."""
        self._require_pinned()
        folder = self._new_folder()
        words = self._words(operation, arguments, folder)
        receipt: dict[str, Any] = {
            "argv": words,
            "binary_sha256": self._sha256,
            "started_at_ms": _now(),
            "outcome": "pending",
        }
        _write(folder / "receipt.json", receipt)
        code: int | None = None
        with (folder / "stdout").open("xb") as out, (folder / "stderr").open("xb") as err:
            try:
                done = subprocess.run(
                    [str(self._binary), *words],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    timeout=self._timeout,
                    check=False,
                )
                code = done.returncode
            except (OSError, subprocess.TimeoutExpired):
                pass
        outcome = self._outcome(code, folder)
        ended = {"exit_code": code, "finished_at_ms": _now(), "outcome": "returned" if outcome.known else "unknown"}
        _write(folder / "receipt.json", {**receipt, **ended, "stdout": "stdout", "stderr": "stderr"})
        return outcome

    def _words(self, operation: str, arguments: dict[str, Any], folder: Path) -> list[str]:
        path = folder / "input.json"
        words, body = command_words(operation_named(operation), arguments, input_path=str(path))
        if body is not None:
            _write(path, body)
        return ["--project", str(self._project), "--json", *words]

    def _outcome(self, code: int | None, folder: Path) -> Outcome:
        value, error = _object(folder / "stdout"), _object(folder / "stderr")
        if code == 0 and value is not None:
            return Outcome(value, None)
        if code in {1, 2} and error is not None and {"code", "message"} <= error.keys():
            return Outcome(value, error)
        return Outcome(None, None, known=False)

    def _new_folder(self) -> Path:
        self._receipts.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self._receipts / uuid4().hex
        folder.mkdir(mode=0o700)
        return folder

    def _require_pinned(self) -> None:
        try:
            found = hashlib.sha256(self._binary.read_bytes()).hexdigest()
        except OSError:
            raise WorkflowError("the executable cannot be read") from None
        if found != self._sha256:
            raise WorkflowError("the executable is not the one that was pinned: its SHA-256 is another")


def _object(path: Path) -> dict[str, Any] | None:
    data = path.read_bytes()
    if not data or len(data) > MAX_OUTPUT_BYTES:
        return None
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _write(path: Path, value: dict[str, Any]) -> None:
    """Write JSON that only its owner can read, and see it on the disk before anything follows from it."""
    text = json.dumps(value, ensure_ascii=False, indent=1).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _now() -> int:
    return time.time_ns() // 1_000_000
