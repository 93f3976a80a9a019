"""The context that a workflow gives out: complete, of this project, session and work, and bound to what AWR said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from awr.chain import digest
from awr.client.files import read_private
from awr.client.state import Delivered, State
from awr.client.transport import MAX_ANSWER_BYTES, STDOUT, Answer
from awr.client.turn import Turn, part
from awr.errors import WorkflowRefused

__all__ = ["acknowledged", "deliver", "require_acknowledged", "require_delivered"]

_HASH = re.compile(r"[0-9a-f]{64}")


def deliver(turn: Turn, report: Mapping[str, Any], *, answer: Answer, receipts: str, revision: int) -> None:
    """Bind the state to a context that was just compiled; nobody has acknowledged it yet.

    `report` is the compiled context inside the answer. Raise WorkflowRefused unless it is complete and about this
    project, session and work.
    """
    _require_match(report, turn.state)
    found = part(report, "work_context", "context_hash", kind=str)
    if not _HASH.fullmatch(found):
        raise _mismatch("a context_hash of another form")
    delivered = Delivered(
        context_hash=found,
        receipts=receipts,
        stdout_sha256=answer.stdout_sha256,
        project_revision=revision,
    )
    turn.save(context=delivered, last_revision=revision)


def require_delivered(turn: Turn, context_hash: str | None) -> Delivered:
    """Return the delivered context; a hash of None names whichever it is.

    Raise WorkflowRefused for another hash, or for receipts that were changed.
    """
    context = turn.state.context
    if context is None:
        raise WorkflowRefused(
            "no context has been delivered since the last change of it",
            expected="a context that context() or prepare() gave out",
            next_step="fetch the context and let the agent consume it",
        )
    path = turn.desk.file.folder / context.receipts / STDOUT
    data = read_private(path, limit=MAX_ANSWER_BYTES)
    if data is None or digest(data) != context.stdout_sha256:
        raise WorkflowRefused(
            "the receipt of the delivered context is not what AWR answered",
            got="no file" if data is None else "other bytes",
            expected="the bytes as they were received",
            next_step="fetch the context again, and find out who changed the receipts",
        )
    if context_hash not in {None, context.context_hash}:
        raise WorkflowRefused(
            "the hash is not that of the delivered context",
            got="another text",
            expected="the context_hash of the context that was given out last",
            next_step="hand the delivered context to the agent and pass its hash",
        )
    return context


def require_acknowledged(turn: Turn, context_hash: str | None = None) -> Delivered:
    """Return the delivered context that the caller has acknowledged. Raise WorkflowRefused otherwise."""
    found = require_delivered(turn, context_hash)
    if not found.acknowledged:
        raise WorkflowRefused(
            "the delivered context is not acknowledged",
            got="a context that nobody said was consumed",
            expected="acknowledge() with its hash, once the agent has consumed it",
            next_step="let the agent consume the context, then acknowledge it",
        )
    return found


def acknowledged(context: Delivered) -> Delivered:
    """Return the same context with the caller's attestation."""
    return msgspec.structs.replace(context, acknowledged=True)


def _require_match(report: Mapping[str, Any], state: State) -> None:
    identity = part(report, "work_context", "identity", kind=dict)
    completeness = part(report, "completeness", kind=dict)
    if completeness.get("complete") is not True:
        raise _mismatch("a context that is not complete")
    wanted = {
        "project": (identity.get("project_id"), state.binding["project_id"]),
        "work": (identity.get("work_item_key"), state.work),
        "session": (report.get("session_id"), state.session),
    }
    for name, (found, expected) in wanted.items():
        if found != expected:
            raise _mismatch(f"a context of another {name}")


def _mismatch(got: str) -> WorkflowRefused:
    return WorkflowRefused(
        "the context is not one that this session may work from",
        got=got,
        expected="a complete context of this project, session and work",
        next_step="resolve what its completeness lists, then fetch it again",
    )
