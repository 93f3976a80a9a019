"""How a workflow reaches AWR: one small interface, and the record that every call leaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from awr.chain import digest
from awr.client.files import read_private, replace_private, sync_folder, write_private
from awr.ids import Clock

__all__ = ["INPUT", "MAX_ANSWER_BYTES", "STDERR", "STDOUT", "Answer", "Receipts", "Transport"]

MAX_ANSWER_BYTES = 64 * 1024 * 1024
STDOUT, STDERR, INPUT, RECEIPT = "stdout", "stderr", "input.json", "receipt.json"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one call came back with.

    `known` is false when nobody can say what was done. `value` is the JSON object on standard output, `report` AWR's
    own error; a partial result has both.
    """

    known: bool
    value: dict[str, Any] | None
    report: dict[str, Any] | None
    stdout_sha256: str

    @property
    def ok(self) -> bool:
        """Whether the call succeeded as a whole."""
        return self.known and self.value is not None and self.report is None


class Transport(Protocol):
    """One way to call operations of AWR by their names, each call exactly once."""

    def identity(self) -> dict[str, str]:
        """Return what a state is bound to: which AWR this is, with its `version`."""

    def verify(self) -> None:
        """Raise WorkflowRefused unless the program is still the one that `identity` names."""

    def call(
        self, operation: str, arguments: Mapping[str, Any], *, project: Path, receipts: Receipts, clock: Clock
    ) -> Answer:
        """Call once, and leave a record in a new folder before and after. A refusal of AWR is an answer."""


class Receipts:
    """The record of one call, in a folder that is new and only its owner enters."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        sync_folder(folder.parent)
        self._record: dict[str, Any] = {}

    def begin(self, record: dict[str, Any], *, at: int) -> None:
        """Write what is about to be called, before it is."""
        self._record = {**record, "started_at_ms": at, "outcome": "pending"}
        write_private(self.folder / RECEIPT, _json(self._record))

    def finish(self, *, known: bool, exit_code: int | None, at: int) -> None:
        """Write how the call ended."""
        self._record |= {
            "exit_code": exit_code,
            "stdout": STDOUT,
            "stderr": STDERR,
            "finished_at_ms": at,
            "outcome": "returned" if known else "unknown",
        }
        replace_private(self.folder / RECEIPT, _json(self._record))

    def answer(self, *, known: bool) -> Answer:
        """Read back what was answered; the bytes on the disk count."""
        out = read_private(self.folder / STDOUT, limit=MAX_ANSWER_BYTES) or b""
        err = read_private(self.folder / STDERR, limit=MAX_ANSWER_BYTES) or b""
        return Answer(known=known, value=_object(out), report=_report(err), stdout_sha256=digest(out))


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None


def _report(data: bytes) -> dict[str, Any] | None:
    """Return the error on standard error. A program may have warned of something before."""
    for line in reversed(data.splitlines()):
        found = _object(line)
        if found is not None and isinstance(found.get("code"), str):
            return found
    return None
