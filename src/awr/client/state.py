"""What a host's loop remembers between its steps: one JSON file, written whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import msgspec

from awr.client.transport import WorkflowError

__all__ = ["Context", "Done", "Pending", "Phase", "State", "StateFile"]

Phase = Literal["new", "active", "work_completed", "ended"]


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A write that was sent. `outcome` is pending until something came back, then refused or unknown."""

    id: str
    operation: str
    arguments: dict[str, Any]
    outcome: Literal["pending", "refused", "unknown"] = "pending"
    error: dict[str, Any] | None = None


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A write that was carried out, or one that was reconciled after its outcome was not known."""

    id: str
    operation: str
    outcome: Literal["carried_out", "reconciled"]
    project_revision: int | None
    reason: str | None = None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The context that was delivered last, bound by its hash and by the bytes of its receipt."""

    hash: str
    receipt: str
    receipt_sha256: str
    acknowledged: bool = False


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the loop remembers."""

    version: Literal[1] = 1
    binding: dict[str, str]
    phase: Phase = "new"
    session: str | None = None
    work: str | None = None
    context: Context | None = None
    pending: Pending | None = None
    history: tuple[Done, ...] = ()
    last_revision: int | None = None
    checkpoint: str | None = None
    inspection: dict[str, Any] | None = None


class StateFile:
    """The state on disk, in a folder that only its owner may enter. Receipts lie beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.receipts = self.path.parent / "receipts"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the state for one step. Raise WorkflowError when another process holds it."""
        folder = self.path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.is_symlink() or self.path.is_symlink():
            raise WorkflowError("the state file and its folder may not be symbolic links")
        folder.chmod(0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path.with_name(self.path.name + ".lock"), flags, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WorkflowError("another process works with this state file") from None
            yield
        finally:
            os.close(descriptor)

    def read(self) -> State | None:
        """Return the state, or None where there is none yet. Raise WorkflowError for one that cannot be read."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=State)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            raise WorkflowError("the state file is not one that this program wrote") from None

    def write(self, state: State) -> None:
        """Put a state in the place of the one before, seen on the disk before anything follows from it."""
        _put(self.path, msgspec.json.format(msgspec.json.encode(state), indent=1))

    def keep(self, value: dict[str, Any]) -> tuple[str, str]:
        """Keep what was delivered in a receipt of its own. Return its name and the SHA-256 of its bytes."""
        self.receipts.mkdir(mode=0o700, exist_ok=True)
        data = msgspec.json.encode(value)
        name = f"{uuid4().hex}.json"
        _put(self.receipts / name, data)
        return name, hashlib.sha256(data).hexdigest()

    def require_kept(self, context: Context) -> None:
        """Raise WorkflowError unless a receipt is still, byte for byte, what was delivered."""
        try:
            found = hashlib.sha256((self.receipts / context.receipt).read_bytes()).hexdigest()
        except OSError:
            found = ""
        if found != context.receipt_sha256:
            raise WorkflowError("the delivered context's receipt is missing or was changed; prepare the work again")


def _put(path: Path, data: bytes) -> None:
    new = path.with_name(f".{path.name}.{uuid4().hex}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
