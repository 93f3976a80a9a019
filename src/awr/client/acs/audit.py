"""The client's own record of what no Guardian can witness: steps without a decision, and decisions not applied.

Nothing in it was written by anybody else: no payload, no reasoning, no text of an error, no code that is not ours.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from awr.client.acs.outcome import FailureClass
from awr.client.files import sync_folder
from awr.errors import Io, RuleViolation, io_error
from awr.guardian.hooks import Disposition

__all__ = ["AuditFile", "AuditRecord", "Event", "Sink"]

Event = Literal[
    "handshake_failed",
    "handshake_refused",
    "session_unguarded",
    "step_unguarded",
    "step_refused",
    "method_not_evaluated",
    "decision_failure",
    "substituted",
]


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"failure": "class"}):
    """One line. What does not apply to an event is left out.

    `received` is the Guardian's decision and `applied` what was done instead of it or without it. Times that have
    passed are milliseconds.
    """

    time: str
    session_id: str
    event: Event
    applied: Literal["proceed", "deny", "original_kept", "refuse"]
    request_id: str | None = None
    method: str | None = None
    failure: FailureClass | None = None
    posture: Literal["proceed", "deny", "refuse"] | None = None
    received: Disposition | None = None
    reason_codes: tuple[str, ...] = ()
    error_code: int | None = None
    http_status: int | None = None
    timeout_ms: int | None = None
    elapsed_ms: int | None = None


#: Where records go. What a sink raises reaches the program: a step that cannot be recorded has not proceeded.
Sink = Callable[[AuditRecord], None]


class AuditFile:
    """A sink that appends JSON lines to a file that only its owner reads, each durable before the step goes on.

    Several processes may share the file. Raise RuleViolation for a file that others may use or a link in its place,
    and Io when the system refuses.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            if Path(path).is_symlink():
                raise _unsafe("a link") from error
            raise io_error(error) from error
        try:
            _require_own(self._descriptor)
            sync_folder(Path(path).parent)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __call__(self, record: AuditRecord) -> None:
        """Append one record. Raise Io."""
        line = msgspec.json.encode(record) + b"\n"
        try:
            # One call for one line: the lines of two processes never mix.
            written = os.write(self._descriptor, line)
            os.fsync(self._descriptor)
        except OSError as error:
            raise io_error(error) from error
        if written != len(line):
            raise Io(
                "the audit file took only a part of a record",
                got=f"{written} bytes",
                expected=f"{len(line)} bytes",
                next_step="make room on the disk; the broken line stays in the file",
            )

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _require_own(descriptor: int) -> None:
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        raise _unsafe("something else than a file")
    if state.st_uid != os.geteuid():
        raise _unsafe("a file of another user")
    if state.st_mode & 0o077:
        raise _unsafe(f"mode {stat.S_IMODE(state.st_mode):04o}")


def _unsafe(got: str) -> RuleViolation:
    return RuleViolation(
        "the audit file is not safe to use",
        got=got,
        expected="a plain file of this user, mode 0600; it is made if it is missing",
        next_step="chmod 600 the file, or name another",
    )
