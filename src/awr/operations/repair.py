"""Repairs that a person decides on, one record at a time."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.domain.secrets import refuse_secrets
from awr.domain.text import bounded_text
from awr.errors import InvalidTransition, NotFound
from awr.journal.journal import Writer
from awr.journal.sessions import session_by_id
from awr.operations.claim import close_claims_of
from awr.operations.fields import ExpectedRevision, described
from awr.operations.selection import require_active
from awr.project import Project

__all__ = ["RepairRequest", "RepairResult", "repair"]

MAX_REASON_BYTES = 4096

Kind = Literal["expire-claim", "interrupt-session", "abandon-checkpoint"]


class RepairRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    repair: Annotated[
        Kind, described("What to do: expire-claim, interrupt-session or abandon-checkpoint.", argument=True)
    ]
    id: Annotated[str, described("The claim, the session or the attempt, by its id.", argument=True)]
    expected_revision: ExpectedRevision
    reason: Annotated[str, described("Why, up to 4,096 bytes; it is kept in the journal.")]


class RepairResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was repaired, with the event that says so and the claims that it closed."""

    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[False] = False
    repair: Kind
    id: str
    event_id: str
    closed_claim_ids: tuple[str, ...] = ()


def repair(project: Project, request: RepairRequest) -> RepairResult:
    """Record that a lapsed claim, a session that did not end itself or an unfinished checkpoint is over.

    Raise NotFound, InvalidInput, RuleViolation for a secret, RevisionConflict, or InvalidTransition for a record
    that needs no repair.
    """
    reason = bounded_text("reason", request.reason, limit=MAX_REASON_BYTES)
    refuse_secrets(reason, what="the reason")
    with project.journal.write(expected_revision=request.expected_revision) as writer:
        closed: tuple[str, ...] = ()
        if request.repair == "expire-claim":
            event_id = _expire(writer, request.id, reason=reason)
            closed = (request.id,)
        elif request.repair == "interrupt-session":
            event_id, closed = _interrupt(writer, request.id, reason=reason)
        else:
            event_id = _abandon(writer, request.id, reason=reason)
        return RepairResult(
            project_revision=writer.project_revision,
            repair=request.repair,
            id=request.id,
            event_id=event_id,
            closed_claim_ids=closed,
        )


def _expire(writer: Writer, claim_id: str, *, reason: str) -> str:
    row = writer.database.row(
        "SELECT status, expires_at, work_item_id, session_id, branch_id FROM claims WHERE id = ?", (claim_id,)
    )
    if row is None:
        raise _missing("claim")
    if row["status"] != "active" or row["expires_at"] is None or row["expires_at"] > writer.now:
        raise InvalidTransition(
            "this claim has not lapsed",
            got="a claim that holds" if row["status"] == "active" else f"a claim that is {row['status']}",
            expected="an active claim whose time limit has passed",
            next_step="release it in the session that holds it, or wait until its time limit",
        )
    return writer.append(
        "claim.expired",
        {"claim_id": claim_id, "reason": reason},
        summary="Claim expired",
        work_item_id=row["work_item_id"],
        session_id=row["session_id"],
        branch_id=row["branch_id"],
    ).id


def _interrupt(writer: Writer, session_id: str, *, reason: str) -> tuple[str, tuple[str, ...]]:
    session = session_by_id(writer.database, session_id)
    require_active(session)
    closed = close_claims_of(writer, session)
    event = writer.append(
        "session.interrupted",
        {
            "status": "interrupted",
            "closed_claim_ids": closed,
            "last_checkpoint_id": session.last_checkpoint_id,
            "reason": reason,
        },
        summary="Session interrupted",
        importance="high",
        work_item_id=session.work_item_id,
        session_id=session.id,
        branch_id=session.branch_id,
    )
    return event.id, closed


def _abandon(writer: Writer, attempt_id: str, *, reason: str) -> str:
    row = writer.database.row(
        "SELECT a.state, a.session_id, s.work_item_id, s.branch_id FROM checkpoint_attempts a "
        "LEFT JOIN sessions s ON s.id = a.session_id WHERE a.id = ?",
        (attempt_id,),
    )
    if row is None:
        raise _missing("attempt to save a checkpoint")
    if row["state"] != "started":
        raise InvalidTransition(
            "this attempt to save a checkpoint is closed",
            got=f"an attempt that is {row['state']}",
            expected="an attempt that was begun and not finished",
            next_step="run awr doctor to see what is unfinished",
        )
    return writer.append(
        "checkpoint.abandoned",
        {"attempt_id": attempt_id, "reason": reason},
        summary="Checkpoint abandoned",
        work_item_id=row["work_item_id"],
        session_id=row["session_id"],
        branch_id=row["branch_id"],
    ).id


def _missing(kind: str) -> NotFound:
    return NotFound(
        f"there is no such {kind} in this project",
        expected=f"the id of a {kind}, as awr doctor names it",
        next_step="run awr doctor to see what needs a repair",
    )
