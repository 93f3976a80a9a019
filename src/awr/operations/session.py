"""Begin, find and end sessions. A session is AWR's record; no native session is opened or closed by it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.domain.secrets import refuse_secrets
from awr.domain.session import (
    Binding,
    Checkpoint,
    Claim,
    Outcome,
    Session,
    Wait,
    validate_binding,
    validate_claim_wish,
    validate_labels,
)
from awr.errors import SourceConflict
from awr.journal.checkpoints import inherited_checkpoint, latest_checkpoint, recent_attempts, waits_of
from awr.journal.journal import Writer
from awr.journal.sessions import (
    binding_of,
    claims_of_session,
    newest_sessions,
    session_bound_to,
    session_by_id,
    successor_of,
)
from awr.operations.claim import acquire, close_claims_of
from awr.operations.fields import Branch, ExpectedRevision, described, require_main, work_entity
from awr.operations.selection import LOCAL_CLIENT, bound_session, require_active
from awr.project import Project
from awr.sources.index import refreshed_write

__all__ = [
    "CheckpointSave",
    "EndRequest",
    "EndResult",
    "ListRequest",
    "ListResult",
    "ShowRequest",
    "ShowResult",
    "StartRequest",
    "StartResult",
    "end",
    "listing",
    "show",
    "start",
    "started",
]


MAX_SAVES = 20


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: Annotated[str, described("A label for the agent.")]
    provider: Annotated[str, described("A label for the model's provider.")]
    model: Annotated[str, described("A label for the model.")]
    expected_revision: ExpectedRevision
    work: Annotated[str | None, described("The work item to bind the session to.")] = None
    conversation: Annotated[str | None, described("The host's own id of the conversation.")] = None
    client: Annotated[str, described("Which client the conversation belongs to.")] = LOCAL_CLIENT
    claim: Annotated[bool, described("Take the work item for this session alone.")] = False
    ttl_ms: (
        Annotated[int, msgspec.Meta(ge=1, le=2**53, description="Let the claim lapse after this many milliseconds.")]
        | None
    ) = None
    branch: Branch = None


class StartResult(msgspec.Struct, frozen=True, kw_only=True):
    """The new session, or the one that this conversation already has (`binding_reused`, nothing written)."""

    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["source_refresh", "runtime_database"]
    source_refresh_performed: bool
    read_only: bool
    session: Session
    claim: Claim | None
    binding: Binding | None
    binding_reused: bool
    event_id: str | None
    next_action: str


class ListRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    active: Annotated[bool, described("Only active sessions.")] = False
    client: Annotated[str | None, described("Only sessions bound to a conversation of this client.")] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many sessions at the most.")] = 20
    before_revision: (
        Annotated[
            int, msgspec.Meta(ge=0, le=2**62, description="Only sessions started before this project revision.")
        ]
        | None
    ) = None


class ListResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    source_refresh_performed: Literal[False] = False
    read_only: Literal[True] = True
    sessions: tuple[Session, ...]
    next_before_revision: int | None


class ShowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: Annotated[str | None, described("The session's id.", argument=True)] = None
    conversation: Annotated[str | None, described("Find it by the conversation it is bound to.")] = None
    client: Annotated[str, described("Which client the conversation belongs to.")] = LOCAL_CLIENT


class CheckpointSave(msgspec.Struct, frozen=True):
    """One attempt to save a checkpoint: started, created, or abandoned. Only a created one can be resumed from."""

    id: str
    state: str
    base_project_revision: int
    started_at: int


class ShowResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    source_refresh_performed: Literal[False] = False
    read_only: Literal[True] = True
    session: Session
    binding: Binding | None
    claims: tuple[Claim, ...]
    checkpoint: Checkpoint | None
    inherited_checkpoint: Checkpoint | None
    checkpoint_saves: tuple[CheckpointSave, ...]
    resumed_successor: str | None
    continuity_state: Literal["waiting_user", "available"]
    waits: tuple[Wait, ...]
    context_requires_refresh: Literal[True] = True


class EndRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: Annotated[str, described("The session's id.")]
    expected_revision: ExpectedRevision
    outcome: Annotated[Outcome, described("How it ended.")] = "ended"


class EndResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    source_refresh_performed: Literal[False] = False
    read_only: Literal[False] = False
    session: Session
    closed_claim_ids: tuple[str, ...]
    event_id: str


def start(project: Project, request: StartRequest) -> StartResult:
    """Begin a session. A conversation that has one already gets it back, if work and labels are the same.

    Raise InvalidInput, RuleViolation, NotFound, RevisionConflict, SourceConflict, SourceStale, ClaimConflict or
    DependencyBlocked.
    """
    require_main(request.branch)
    labels = (request.agent, request.provider, request.model, request.client, request.conversation)
    refuse_secrets(list(labels), what="the session's labels")
    validate_labels(agent_id=request.agent, provider=request.provider, model=request.model)
    validate_claim_wish(claim=request.claim, ttl_ms=request.ttl_ms, has_work=request.work is not None)
    binding = None
    if request.conversation is not None:
        binding = Binding(client=request.client, conversation=request.conversation)
        validate_binding(binding)
        reused = _reused(project, request, binding)
        if reused is not None:
            return reused
    with refreshed_write(project, expected_revision=request.expected_revision) as writer:
        return started(writer, request, binding)


def started(writer: Writer, request: StartRequest, binding: Binding | None) -> StartResult:
    """Begin a session as a part of a write that rests on fresh sources. Raise what a claim raises, or NotFound."""
    work = work_entity(writer.database, request.work) if request.work else None
    session_id = writer.new_id()
    event = writer.append(
        "session.started",
        {
            "agent_id": request.agent,
            "provider": request.provider,
            "model": request.model,
            "mcp_binding": binding,
        },
        summary="Session started",
        work_item_id=work.id if work else None,
        session_id=session_id,
    )
    if work and request.claim:
        expires_at = None if request.ttl_ms is None else writer.now + request.ttl_ms
        acquire(writer, session_by_id(writer.database, session_id), work, expires_at=expires_at)
    return StartResult(
        project_revision=writer.project_revision,
        freshness_basis="source_refresh",
        source_refresh_performed=True,
        read_only=False,
        session=session_by_id(writer.database, session_id),
        claim=next(iter(claims_of_session(writer.database, session_id)), None),
        binding=binding,
        binding_reused=False,
        event_id=event.id,
        next_action="report_completed_compactions" if work else "bind_work_before_reporting_compactions",
    )


def listing(project: Project, request: ListRequest) -> ListResult:
    """Return sessions, newest first, with where the next page begins."""
    with project.journal.read() as reader:
        found = newest_sessions(
            reader.database,
            active_only=request.active,
            client=request.client,
            before_revision=request.before_revision,
            limit=request.limit,
        )
        full = len(found) == request.limit
        return ListResult(
            project_revision=reader.project_revision,
            sessions=tuple(found),
            next_before_revision=found[-1].start_project_revision if full else None,
        )


def show(project: Project, request: ShowRequest) -> ShowResult:
    """Return one session, by its id or its conversation. Raise NotFound or InvalidInput."""
    with project.journal.read() as reader:
        session = bound_session(
            reader, session=request.session, conversation=request.conversation, client=request.client
        )
        waits = waits_of(reader.database, session.id)
        return ShowResult(
            project_revision=reader.project_revision,
            session=session,
            binding=binding_of(reader.database, session.id),
            claims=tuple(claims_of_session(reader.database, session.id)),
            checkpoint=latest_checkpoint(reader.database, session.id),
            inherited_checkpoint=inherited_checkpoint(reader.database, session.id),
            checkpoint_saves=tuple(
                CheckpointSave(row["id"], row["state"], row["base_project_revision"], row["started_at"])
                for row in recent_attempts(reader.database, session.id, limit=MAX_SAVES)
            ),
            resumed_successor=successor_of(reader.database, session.id),
            continuity_state="waiting_user" if any(one.status == "waiting_user" for one in waits) else "available",
            waits=tuple(waits),
        )


def end(project: Project, request: EndRequest) -> EndResult:
    """End an active session and close its claims; stale sources do not matter.

    Raise NotFound, RevisionConflict or InvalidTransition.
    """
    with project.journal.write(expected_revision=request.expected_revision) as writer:
        session = session_by_id(writer.database, request.session)
        require_active(session)
        closed = close_claims_of(writer, session)
        event = writer.append(
            "session.ended",
            {
                "status": request.outcome,
                "closed_claim_ids": closed,
                "last_checkpoint_id": session.last_checkpoint_id,
            },
            summary=f"Session {request.outcome}",
            work_item_id=session.work_item_id,
            session_id=session.id,
            branch_id=session.branch_id,
        )
        return EndResult(
            project_revision=writer.project_revision,
            session=session_by_id(writer.database, session.id),
            closed_claim_ids=closed,
            event_id=event.id,
        )


def _reused(project: Project, request: StartRequest, binding: Binding) -> StartResult | None:
    with project.journal.read() as reader:
        found = session_bound_to(reader.database, binding)
        if found is None:
            return None
        work_item_id = work_entity(reader.database, request.work).id if request.work else None
        same = (found.agent_id, found.provider, found.model, found.work_item_id) == (
            request.agent,
            request.provider,
            request.model,
            work_item_id,
        )
        if not same:
            raise SourceConflict(
                "this conversation has a session with other work or labels",
                got="the same conversation with another work item, agent, provider or model",
                expected="what the session was started with",
                next_step="run awr session show --conversation to see it, or start under another conversation id",
                session=found.id,
            )
        return StartResult(
            project_revision=reader.project_revision,
            freshness_basis="runtime_database",
            source_refresh_performed=False,
            read_only=True,
            session=found,
            claim=next(iter(claims_of_session(reader.database, found.id, active_only=True)), None),
            binding=binding,
            binding_reused=True,
            event_id=None,
            next_action="continue_the_bound_session" if found.status == "active" else "resume_in_a_new_session",
        )
