"""Taking over from a session that stopped: first proved possible, then written as one commit, or nothing.

The old session, its checkpoint and its evidence stay. No native session is opened, closed or switched.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from awr.context.compile import ContextReport
from awr.context.request import DEFAULT_BUDGET, ContextRequest
from awr.domain.execution import is_uncertain
from awr.domain.secrets import refuse_secrets
from awr.domain.session import Binding, Checkpoint, Claim, Session, validate_binding, validate_labels
from awr.errors import (
    AwrError,
    ContextIncomplete,
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    RuleViolation,
    SourceConflict,
)
from awr.journal.checkpoints import latest_checkpoint, open_waits
from awr.journal.executions import executions_of_work
from awr.journal.journal import Reader, Writer
from awr.journal.sessions import (
    claims_of_session,
    newest_sessions,
    session_bound_to,
    session_by_id,
    successor_of,
)
from awr.journal.sources import EntityRow, entity_by_id
from awr.operations.claim import acquire, claim_for, close_claim
from awr.operations.context import compiled
from awr.operations.execution import ExecutionView
from awr.operations.fields import ExpectedRevision, described, work_entity
from awr.operations.selection import LOCAL_CLIENT, work_of
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.index import refresh

__all__ = ["ResumeRequest", "ResumeResult", "Resumed", "resume"]

SelectionBasis = Literal["explicit_session", "active_session", "latest_closed_session"]
_TERMINAL = frozenset({"completed", "cancelled", "unknown"})


class ResumeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: Annotated[str, described("A label for the agent that goes on.")]
    provider: Annotated[str, described("A label for the model's provider.")]
    model: Annotated[str, described("A label for the model.")]
    expected_revision: ExpectedRevision
    session: Annotated[
        str | None, described("The session to go on from; left out, the newest that fits.", option="--from-session")
    ] = None
    work: Annotated[str | None, described("The work item to go on with.")] = None
    claim: Annotated[
        Literal["inherit", "acquire", "none"], described("Take over its live claim, make a new one, or hold none.")
    ] = "inherit"
    ttl_ms: Annotated[int, msgspec.Meta(ge=1, le=2**53, description="Let an acquired claim lapse.")] | None = None
    conversation: Annotated[str | None, described("The host's own id of the new conversation.")] = None
    client: Annotated[str, described("Which client the conversation belongs to.")] = LOCAL_CLIENT
    budget: Annotated[
        int, msgspec.Meta(ge=1, le=100_000, description="How many tokens the compiled context may have.")
    ] = DEFAULT_BUDGET
    paths: Annotated[
        tuple[str, ...] | None, described("A path the work touches; may be repeated.", option="--path")
    ] = None
    tags: Annotated[tuple[str, ...] | None, described("A tag of the work; may be repeated.", option="--tag")] = None
    goals: Annotated[tuple[str, ...], described("A goal's key; may be repeated.", option="--goal")] = ()
    source_sha: Annotated[str | None, described("The full id of the commit worked on.")] = None


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """What was written: the session that went on, and what it took over."""

    from_session: Session
    session: Session
    checkpoint: Checkpoint | None
    claim: Claim | None
    closed_claim_ids: tuple[str, ...]


class ResumeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The way back into the work. Without complete required context `resumed` is null and nothing was written."""

    ok: bool
    project_revision: int
    read_only: bool
    selection_basis: SelectionBasis
    from_session_id: str
    checkpoint_id: str | None
    recovery_basis: Literal["checkpoint", "source_and_session_start"]
    recovery_gaps: tuple[str, ...]
    checkpoint_save: Checkpoint | None
    resumed: Resumed | None
    event_id: str | None
    committed_project_revision: int | None
    context_phase: Literal["preflight", "resumed_session"]
    context: ContextReport
    context_error: dict[str, Any] | None
    context_ready: bool
    executions: tuple[ExecutionView, ...]

    def problem(self) -> AwrError | None:
        """Return the error of a context that is not ready, or None."""
        if self.context_ready:
            return None
        written = self.resumed is not None
        return ContextIncomplete(
            "the required context is not complete",
            got="a successor was created" if written else "nothing was written",
            expected="every required fact known and fresh",
            next_step=(
                "compile the context for the successor; do not resume again"
                if written
                else "resolve the issues that the completeness lists, then resume again"
            ),
        )


def resume(project: Project, request: ResumeRequest) -> ResumeResult:
    """Go on from another session with its checkpoint, its claim if asked, and freshly compiled required context.

    Raise InvalidInput, RuleViolation, NotFound, RevisionConflict, InvalidTransition, SourceConflict, ClaimConflict or
    DependencyBlocked.
    """
    binding = _checked(request)
    _require_revision(project, request.expected_revision)
    refreshed = refresh(project)
    _require_revision(project, request.expected_revision)
    with project.journal.read() as reader:
        predecessor, basis = _predecessor(reader, request)
        work = _resumable_work(reader, predecessor)
        saved = latest_checkpoint(reader.database, predecessor.id)
        _refuse_taken(reader, predecessor, binding)
    wanted = ContextRequest(
        work=work.external_key,
        detached=True,
        agent=request.agent,
        goals=request.goals,
        paths=request.paths,
        tags=request.tags,
        source_sha=request.source_sha,
        budget=request.budget,
    )
    context = compiled(project, wanted, refreshed=refreshed)
    result = ResumeResult(
        ok=False,
        project_revision=request.expected_revision,
        read_only=True,
        selection_basis=basis,
        from_session_id=predecessor.id,
        checkpoint_id=saved.id if saved else None,
        recovery_basis="checkpoint" if saved else "source_and_session_start",
        recovery_gaps=() if saved else ("no_checkpoint",),
        checkpoint_save=saved,
        resumed=None,
        event_id=None,
        committed_project_revision=None,
        context_phase="preflight",
        context=context,
        context_error=None,
        context_ready=False,
        executions=(),
    )
    if not context.completeness.complete:
        return result
    with project.journal.write(expected_revision=request.expected_revision) as writer:
        resumed, event_id = _take_over(writer, request, predecessor, work, saved, binding, context)
        committed = writer.project_revision
        running = tuple(ExecutionView(one, is_uncertain(one)) for one in executions_of_work(writer.database, work.id))
    own = msgspec.structs.replace(wanted, detached=False, session=resumed.session.id)
    after, error = _compiled_for_successor(project, own, refreshed=refreshed)
    ready = after is not None and after.completeness.complete
    return msgspec.structs.replace(
        result,
        ok=ready,
        project_revision=committed,
        read_only=False,
        resumed=resumed,
        event_id=event_id,
        committed_project_revision=committed,
        context_phase="resumed_session" if after is not None else "preflight",
        context=after or context,
        context_error=error,
        context_ready=ready,
        executions=running,
    )


def _checked(request: ResumeRequest) -> Binding | None:
    labels = [request.agent, request.provider, request.model, request.client, request.conversation]
    refuse_secrets(labels, what="the session's labels")
    validate_labels(agent_id=request.agent, provider=request.provider, model=request.model)
    if request.ttl_ms is not None and request.claim != "acquire":
        raise InvalidInput(
            "a time limit belongs to a claim that is acquired",
            got=f"claim {request.claim}",
            expected="claim acquire, or no time limit",
            next_step="an inherited claim keeps its own expiry",
        )
    if request.conversation is None:
        return None
    binding = Binding(client=request.client, conversation=request.conversation)
    validate_binding(binding)
    return binding


def _require_revision(project: Project, expected: int) -> None:
    with project.journal.read() as reader:
        if reader.project_revision != expected:
            raise RevisionConflict(expected=expected, actual=reader.project_revision)


def _predecessor(reader: Reader, request: ResumeRequest) -> tuple[Session, SelectionBasis]:
    wanted = work_entity(reader.database, request.work).id if request.work else None
    if request.session is not None:
        named = session_by_id(reader.database, request.session)
        if wanted is not None and named.work_item_id != wanted:
            raise RuleViolation(
                "the session to go on from is bound to other work",
                expected="a session of the work that was named",
                next_step="leave the work out, or name a session of it",
            )
        return named, "explicit_session"
    every = newest_sessions(reader.database, active_only=False, before_revision=None, limit=1000)
    fitting = [
        one
        for one in every
        if one.work_item_id is not None
        and wanted in {None, one.work_item_id}
        and successor_of(reader.database, one.id) is None
        and (one.status != "ended" or wanted is not None)
    ]
    active = [one for one in fitting if one.status == "active"]
    if len(active) > 1:
        raise InvalidInput(
            "two active sessions could be meant",
            got=f"{len(active)} active sessions",
            expected="one",
            next_step="name the session to go on from with --from-session",
        )
    if active:
        return active[0], "active_session"
    if fitting:
        return fitting[0], "latest_closed_session"
    raise NotFound(
        "there is no session to go on from",
        expected="an active, interrupted or incomplete session, or an ended one of the work you name",
        next_step="start a session for the work instead",
    )


def _resumable_work(reader: Reader, predecessor: Session) -> EntityRow:
    known = entity_by_id(reader.database, work_of(predecessor))
    item = Contents(reader).work_item(known.external_key) if known and not known.retired else None
    if known is None or item is None or item.status in _TERMINAL:
        raise InvalidTransition(
            "this work cannot be gone on with",
            got="work that no source names now" if item is None else f"work that is {item.status}",
            expected="work that is open and whose status is known",
            next_step="look at it with awr work show",
        )
    return known


def _refuse_taken(reader: Reader, predecessor: Session, binding: Binding | None) -> None:
    successor = successor_of(reader.database, predecessor.id)
    if successor is not None:
        raise InvalidTransition(
            "somebody went on from this session already",
            got="a session with a successor",
            expected="a session nobody has taken over",
            next_step="go on from its successor",
            successor=successor,
        )
    if open_waits(reader.database, predecessor.id):
        raise InvalidTransition(
            "this session waits for the user's reply",
            got="an open wait",
            expected="no open wait",
            next_step="let the user answer it with awr session reply, then resume",
        )
    bound = session_bound_to(reader.database, binding) if binding else None
    if bound is not None and bound.id != predecessor.id:
        raise SourceConflict(
            "the new conversation has a session of its own",
            expected="a conversation without one, or the predecessor's own",
            next_step="resume under another conversation id",
            session=bound.id,
        )


def _take_over(
    writer: Writer,
    request: ResumeRequest,
    predecessor: Session,
    work: EntityRow,
    saved: Checkpoint | None,
    binding: Binding | None,
    context: ContextReport,
) -> tuple[Resumed, str]:
    held = claims_of_session(writer.database, predecessor.id, active_only=True)
    live = [one for one in held if one.expires_at is None or one.expires_at > writer.now]
    for one in held:
        close_claim(writer, one)
    successor_id = writer.new_id()
    payload = {
        "from_session_id": predecessor.id,
        "to_session_id": successor_id,
        "checkpoint_id": saved.id if saved else None,
        "recovery_after_revision": saved.project_revision if saved else predecessor.start_project_revision,
        "prepared_context_hash": context.work_context.context_hash if context.work_context else None,
        "prepared_project_revision": request.expected_revision,
        "claim_mode": request.claim,
        "closed_claim_ids": [one.id for one in held],
        "context_requires_refresh": True,
    }
    event = writer.append(
        "session.resumed",
        {
            **payload,
            "agent_id": request.agent,
            "provider": request.provider,
            "model": request.model,
            "mcp_binding": binding,
        },
        summary="Session resumed",
        importance="high",
        work_item_id=work.id,
        session_id=successor_id,
    )
    interrupted = predecessor.status == "active"
    writer.append(
        "session.resumed_from",
        {**payload, "status": "interrupted" if interrupted else None},
        summary="Session taken over",
        importance="high",
        work_item_id=work.id,
        session_id=predecessor.id,
    )
    successor = session_by_id(writer.database, successor_id)
    taken = None
    if request.claim == "inherit" and live:
        taken = claim_for(writer, successor, work, expires_at=live[0].expires_at)
    elif request.claim == "acquire":
        expires_at = None if request.ttl_ms is None else writer.now + request.ttl_ms
        taken = acquire(writer, successor, work, expires_at=expires_at).claim
    if saved is not None:
        writer.append(
            "session.handoff_received",
            {"from_session_id": predecessor.id, "checkpoint_id": saved.id},
            summary="Handoff received",
            importance="high",
            work_item_id=work.id,
            session_id=successor_id,
        )
    resumed = Resumed(
        from_session=session_by_id(writer.database, predecessor.id),
        session=successor,
        checkpoint=saved,
        claim=taken,
        closed_claim_ids=tuple(one.id for one in held),
    )
    return resumed, event.id


def _compiled_for_successor(
    project: Project, request: ContextRequest, *, refreshed: Any
) -> tuple[ContextReport | None, dict[str, Any] | None]:
    # The successor is on record already: whatever fails now is reported beside it and never hides it.
    try:
        return compiled(project, request, refreshed=refreshed), None
    except AwrError as error:
        return None, error.report()
