"""What a workflow remembers between two calls: one JSON file, one lock beside it.

The lock is held for one method of one workflow at a time. The file is read again under it each time, so that two
programs on one state never work from an old copy.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import msgspec

from awr.client.files import private_folder, read_private, replace_private
from awr.errors import AwrError, WorkflowRefused
from awr.operations.requests import decode_request
from awr.sources.locking import held_lock

__all__ = ["RECEIPTS", "Delivered", "Entry", "Inspected", "Pending", "Phase", "State", "StateFile"]

Phase = Literal["new", "active", "work_completed", "ended"]
CallOutcome = Literal["pending", "returned", "unknown"]

RECEIPTS = "receipts"
MAX_STATE_BYTES = 16 * 1024 * 1024


class Delivered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The context that was given out last, bound to the bytes that AWR answered with.

    `acknowledged` is the caller's attestation that the agent has consumed it. Nothing verifies it.
    """

    context_hash: str
    receipts: str
    stdout_sha256: str
    project_revision: int
    acknowledged: bool = False


class Pending(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A write that was begun. `outcome` stays "pending" where the process died before it knew."""

    id: str
    operation: str
    args: dict[str, Any]
    receipts: str
    outcome: CallOutcome
    started_at_ms: int


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A write that is behind us, without its texts: `args_sha256` is of their sorted compact JSON."""

    id: str
    operation: str
    args_sha256: str
    receipts: str
    outcome: Literal["succeeded", "reconciled"]
    project_revision: int
    finished_at_ms: int
    reconciliation: dict[str, str] | None = None


class Inspected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was looked at last, for a reconciliation to name."""

    sha256: str
    session: str | None
    work: str | None


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a workflow remembers. `binding` says which AWR and which project it belongs to."""

    version: Literal[1] = 1
    binding: dict[str, str]
    last_revision: int
    session: str | None = None
    work: str | None = None
    phase: Phase = "new"
    context: Delivered | None = None
    pending: Pending | None = None
    history: tuple[Entry, ...] = ()
    checkpoint: str | None = None
    inspection: Inspected | None = None


class StateFile:
    """The place of one state, in a folder that only its owner enters."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def folder(self) -> Path:
        """The folder of the state and of its receipts."""
        return self.path.parent

    def make_folders(self) -> None:
        """Make the folders of the state and its receipts. Raise WorkflowRefused where they are not private."""
        private_folder(self.folder)
        private_folder(self.folder / RECEIPTS)

    def locked(self) -> AbstractContextManager[None]:
        """Hold the state for one method. Raise WorkflowRefused at once when somebody else holds it."""
        lock = self.path.with_name(f"{self.path.name}.lock")
        busy = WorkflowRefused(
            "another call of a workflow on this state is running",
            got="a lock that is held",
            expected="one call at a time on one state",
            next_step="wait until the other call is done; one agent's session has one state",
        )
        return held_lock(lock, busy=busy, mode=0o600)

    def load(self) -> State | None:
        """Return the state, or None where there is none yet. Raise WorkflowRefused for one that is not ours."""
        data = read_private(self.path, limit=MAX_STATE_BYTES)
        if data is None:
            return None
        try:
            return decode_request(data, State, what="the state file")
        except AwrError as error:
            raise WorkflowRefused(
                "the state file is not one that this workflow wrote",
                got=str(error.details.get("got", "something else")),
                expected="a state of version 1",
                next_step="keep the file for inspection; begin with a new state file and adopt the session",
            ) from None

    def save(self, state: State) -> None:
        """Put a state in the place of the one before, durably."""
        replace_private(self.path, msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n")
