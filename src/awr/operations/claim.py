"""Taking work, giving it back, and handing it to another session."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.domain.session import Claim, Session
from awr.errors import ClaimConflict, ContextIncomplete, InvalidInput, InvalidTransition, NotFound, RuleViolation
from awr.journal.checkpoints import latest_checkpoint
from awr.journal.journal import Writer
from awr.journal.sessions import active_claim, claims_of_session, session_by_id
from awr.journal.sources import EntityRow, entity_by_id
from awr.operations.fields import ExpectedRevision, WorkKey, described, work_entity
from awr.operations.selection import require_active, session_for_work, work_of
from awr.project import Project
from awr.sources.contents import require_claimable
from awr.sources.index import refreshed_write

__all__ = [
    "ClaimRequest",
    "ClaimResult",
    "HandoffRequest",
    "HandoffResult",
    "ReleaseRequest",
    "acquire",
    "claim",
    "claim_for",
    "close_claim",
    "close_claims_of",
    "handoff",
    "release",
]

SessionOption = Annotated[str | None, described("The session that acts; left out, the only active one of this work.")]
WorkOption = Annotated[
    str | None, described("The work item's key; left out, the work of the session that is named.", argument=True)
]
AgentOption = Annotated[str | None, described("Choose the active session by its agent's label.")]
TtlOption = (
    Annotated[int, msgspec.Meta(ge=1, le=2**53, description="Let the claim lapse after this many milliseconds.")]
    | None
)


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkOption = None
    expected_revision: ExpectedRevision
    session: SessionOption = None
    agent: AgentOption = None
    ttl_ms: TtlOption = None


class ReleaseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkOption = None
    expected_revision: ExpectedRevision
    session: SessionOption = None
    agent: AgentOption = None
    claim: Annotated[str | None, described("The claim's id; left out, the session's own active one.")] = None


class HandoffRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    expected_revision: ExpectedRevision
    session: SessionOption = None
    to_session: Annotated[str | None, described("The active session of the same work that receives it.")] = None
    ttl_ms: TtlOption = None


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """The claim as it is now, and the lapsed ones that this write closed."""

    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[False] = False
    claim: Claim
    expired_claim_ids: tuple[str, ...] = ()
    event_id: str


class HandoffResult(msgspec.Struct, frozen=True, kw_only=True):
    """Who handed over and who received, with the claim that moved, if there was one."""

    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[False] = False
    from_session: Session
    to_session: Session | None
    checkpoint_id: str
    claim: Claim | None
    closed_claim_ids: tuple[str, ...]
    event_id: str


def claim(project: Project, request: ClaimRequest) -> ClaimResult:
    """Take a work item for a session alone. A lapsed claim in the way is recorded as expired.

    Raise NotFound, RevisionConflict, InvalidTransition, ClaimConflict, SourceStale or DependencyBlocked.
    """
    with refreshed_write(project, expected_revision=request.expected_revision) as writer:
        work = _meant(writer, request)
        session = session_for_work(writer, work, session=request.session, agent=request.agent)
        require_active(session)
        expires_at = None if request.ttl_ms is None else writer.now + request.ttl_ms
        return acquire(writer, session, work, expires_at=expires_at)


def release(project: Project, request: ReleaseRequest) -> ClaimResult:
    """Give a claim back; stale sources do not matter.

    Raise NotFound, RevisionConflict, ClaimConflict for another session's claim, InvalidTransition for a closed one.
    """
    with project.journal.write(expected_revision=request.expected_revision) as writer:
        work = _meant(writer, request)
        session = session_for_work(writer, work, session=request.session, agent=request.agent)
        held = active_claim(writer.database, work.id)
        if request.claim is not None and (held is None or held.id != request.claim):
            raise InvalidTransition(
                "that claim is not active",
                expected="the id of the active claim",
                next_step="run awr work show to see who holds the work",
            )
        if held is None:
            raise InvalidTransition(
                "nobody holds this work",
                expected="an active claim",
                next_step="there is nothing to release",
            )
        if held.session_id != session.id:
            raise ClaimConflict(
                "another session holds this work",
                expected="a claim of this session",
                next_step="let the session that holds it release it",
            )
        event_id = close_claim(writer, held)
        closed = next(one for one in claims_of_session(writer.database, session.id) if one.id == held.id)
        return ClaimResult(project_revision=writer.project_revision, claim=closed, event_id=event_id)


def handoff(project: Project, request: HandoffRequest) -> HandoffResult:
    """Hand work over: the sender's checkpoint stays, its claim moves to the receiver or is released.

    Raise NotFound, RevisionConflict, InvalidTransition, RuleViolation, or ContextIncomplete without a checkpoint.
    """
    with project.journal.write(expected_revision=request.expected_revision) as writer:
        work = work_entity(writer.database, request.work)
        sender = session_for_work(writer, work, session=request.session, agent=None)
        require_active(sender)
        checkpoint = latest_checkpoint(writer.database, sender.id)
        if checkpoint is None:
            raise ContextIncomplete(
                "work is handed over with a checkpoint",
                got="a session without one",
                expected="a checkpoint of the session that hands over",
                next_step="save one with awr session checkpoint, then hand over",
            )
        receiver = _receiver(writer, sender, request.to_session)
        held = claims_of_session(writer.database, sender.id, active_only=True)
        live = [one for one in held if one.expires_at is None or one.expires_at > writer.now]
        for one in held:
            close_claim(writer, one)
        event = writer.append(
            "work.handoff",
            {
                "from_session_id": sender.id,
                "to_session_id": receiver.id if receiver else None,
                "checkpoint_id": checkpoint.id,
                "closed_claim_ids": [one.id for one in held],
            },
            summary="Work handed over",
            importance="high",
            work_item_id=work.id,
            session_id=sender.id,
        )
        moved = None
        if receiver is not None:
            if live:
                expires_at = live[0].expires_at if request.ttl_ms is None else writer.now + request.ttl_ms
                moved = claim_for(writer, receiver, work, expires_at=expires_at)
            writer.append(
                "session.handoff_received",
                {"from_session_id": sender.id, "checkpoint_id": checkpoint.id},
                summary="Handoff received",
                importance="high",
                work_item_id=work.id,
                session_id=receiver.id,
            )
        return HandoffResult(
            project_revision=writer.project_revision,
            from_session=session_by_id(writer.database, sender.id),
            to_session=session_by_id(writer.database, receiver.id) if receiver else None,
            checkpoint_id=checkpoint.id,
            claim=moved,
            closed_claim_ids=tuple(one.id for one in held),
            event_id=event.id,
        )


def acquire(writer: Writer, session: Session, work: EntityRow, *, expires_at: int | None) -> ClaimResult:
    """Claim work for an active session inside a write. Raise ClaimConflict, SourceStale or DependencyBlocked."""
    expired = expire_lapsed(writer, work)
    require_claimable(writer, work)
    made, event_id = _claimed(writer, session, work, expires_at=expires_at, expired=expired)
    return ClaimResult(
        project_revision=writer.project_revision, claim=made, expired_claim_ids=expired, event_id=event_id
    )


def expire_lapsed(writer: Writer, work: EntityRow) -> tuple[str, ...]:
    """Record that a claim's time has passed, if one has; expiry is seen only when somebody looks."""
    lapsed = active_claim(writer.database, work.id)
    if lapsed is None or lapsed.expires_at is None or lapsed.expires_at > writer.now:
        return ()
    close_claim(writer, lapsed)
    return (lapsed.id,)


def close_claim(writer: Writer, held: Claim) -> str:
    """Give a claim back, or record that its time had passed. Return the event's id."""
    expired = held.expires_at is not None and held.expires_at <= writer.now
    return writer.append(
        "claim.expired" if expired else "claim.released",
        {"claim_id": held.id},
        summary="Claim expired" if expired else "Claim released",
        work_item_id=held.work_item_id,
        session_id=held.session_id,
        branch_id=held.branch_id,
    ).id


def close_claims_of(writer: Writer, session: Session) -> tuple[str, ...]:
    """Close every claim that a session still has. Return their ids."""
    held = claims_of_session(writer.database, session.id, active_only=True)
    for one in held:
        close_claim(writer, one)
    return tuple(one.id for one in held)


def claim_for(writer: Writer, session: Session, work: EntityRow, *, expires_at: int | None) -> Claim:
    """Record a claim that moved from another session, whose holder has been checked."""
    return _claimed(writer, session, work, expires_at=expires_at, expired=())[0]


def _claimed(
    writer: Writer, session: Session, work: EntityRow, *, expires_at: int | None, expired: tuple[str, ...]
) -> tuple[Claim, str]:
    event = writer.append(
        "work.claimed",
        {
            "claim_id": writer.new_id(),
            "agent_id": session.agent_id,
            "expires_at": expires_at,
            "expired_claim_ids": expired,
        },
        summary="Work claimed",
        work_item_id=work.id,
        session_id=session.id,
    )
    made = active_claim(writer.database, work.id)
    assert made is not None
    return made, event.id


def _receiver(writer: Writer, sender: Session, to_session: str | None) -> Session | None:
    if to_session is None:
        return None
    receiver = session_by_id(writer.database, to_session)
    if receiver.id == sender.id or receiver.work_item_id != sender.work_item_id:
        raise RuleViolation(
            "the receiver must be another session of the same work",
            expected="another active session that is bound to this work item",
            next_step="start the receiving session with --work, then hand over",
        )
    if receiver.status != "active":
        raise NotFound(
            "the receiving session is not active",
            got=f"a session that is {receiver.status}",
            expected="an active session",
            next_step="start one for the same work",
        )
    return receiver


def _meant(writer: Writer, request: ClaimRequest | ReleaseRequest) -> EntityRow:
    """Return the work that is named, or that of the session that is named."""
    if request.work is not None:
        return work_entity(writer.database, request.work)
    if request.session is None:
        raise InvalidInput(
            "which work is meant is not said",
            got="neither a work item nor a session",
            expected="one of them",
            next_step="name the work item, or its session with --session",
        )
    found = entity_by_id(writer.database, work_of(session_by_id(writer.database, request.session)))
    assert found is not None, "a session names work of this project"
    return found
