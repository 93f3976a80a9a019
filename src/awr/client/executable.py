"""Calling an `awr` program that is pinned by its SHA-256: no shell, a deadline, a record before and after."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from awr.client.argv import command_line
from awr.client.files import write_private
from awr.client.transport import INPUT, STDERR, STDOUT, Answer, Receipts
from awr.errors import WorkflowRefused
from awr.ids import Clock

__all__ = ["ExecutableTransport"]

TIMEOUT_SECONDS = 60.0


class ExecutableTransport:
    """One program on this machine, whichever build of AWR it is.

    `binary` is an absolute path, `sha256` the digest of the file there, `version` the exact version the program must
    state. A script's digest pins the script, not the interpreter and the packages it starts. `timeout` is in seconds.
    """

    def __init__(self, binary: str | Path, *, sha256: str, version: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._binary = Path(binary)
        self._sha256 = sha256.lower()
        self._version = version
        self._timeout = timeout
        self.verify()

    def identity(self) -> dict[str, str]:
        """Return which AWR this is."""
        return {
            "transport": "executable",
            "binary": str(self._binary),
            "sha256": self._sha256,
            "version": self._version,
        }

    def verify(self) -> None:
        """Raise WorkflowRefused unless the file is there with the pinned digest."""
        problem = None
        if not self._binary.is_absolute():
            problem = "a relative path"
        elif not self._binary.is_file():
            problem = "no file"
        else:
            with self._binary.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != self._sha256:
                    problem = "a file with another digest"
        if problem is not None:
            raise WorkflowRefused(
                "the pinned program is not the one that was pinned",
                got=problem,
                expected="an absolute path to a file with the pinned SHA-256",
                next_step="look at what changed the program; pin the new digest only if you trust it",
            )

    def call(
        self, operation: str, arguments: Mapping[str, Any], *, project: Path, receipts: Receipts, clock: Clock
    ) -> Answer:
        """Run the program once. A deadline that passes, or a program that cannot run, leaves the outcome unknown."""
        self.verify()
        words, given = command_line(operation, arguments)
        if given is not None:
            path = receipts.folder / INPUT
            write_private(path, msgspec.json.encode(given) + b"\n")
            words.append(f"--input={path}")
        argv = [str(self._binary), "--project", str(project), "--json", *words]
        receipts.begin({"argv": argv, "binary_sha256": self._sha256}, at=clock())
        for name in (STDOUT, STDERR):
            write_private(receipts.folder / name, b"")
        exit_code = self._run(argv, receipts.folder)
        # A program that a signal ended had no chance to say how far it came.
        known = exit_code is not None and exit_code >= 0
        receipts.finish(known=known, exit_code=exit_code, at=clock())
        answer = receipts.answer(known=known)
        # What a program says on standard error while it succeeds is no error; one that fails in silence is.
        report = None if exit_code == 0 else answer.report or _silent()
        return msgspec.structs.replace(answer, report=report)

    def _run(self, argv: list[str], folder: Path) -> int | None:
        """Return the exit code, or None when there is none to know."""
        # Files and no pipes: what was said before a deadline is kept, and nobody's child can hold a pipe open.
        with (folder / STDOUT).open("wb") as out, (folder / STDERR).open("wb") as err:
            try:
                process = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
                )
            except (OSError, ValueError):
                return None
            try:
                return process.wait(self._timeout)
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    _end(process)
                os.fsync(out.fileno())
                os.fsync(err.fileno())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program with everything it started in its own session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _silent() -> dict[str, Any]:
    return {"code": "CommandFailed", "message": "the program ended without an error report"}
