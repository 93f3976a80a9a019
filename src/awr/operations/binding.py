"""Binding a host's conversation to a session of its work. Hosts' hooks call it, so it states no revision.

The writes of one conversation follow one another under a lock. Starting or attaching a session and binding it are
one commit. A resume is a commit of its own; a process that dies behind it leaves an active session whose agent is
this conversation and that no binding names, and the next bind takes that one up instead of making another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import msgspec

from awr.context.bootstrap import bootstrap_context
from awr.context.request import ContextRequest
from awr.domain.binding import NOT_REPORTED, ClientBinding, agent_of, external_id
from awr.domain.execution import is_uncertain
from awr.domain.secrets import refuse_secrets
from awr.domain.session import Session, validate_labels
from awr.errors import InvalidInput, InvalidTransition, RevisionConflict, SourceConflict
from awr.journal.bindings import unbound_sessions
from awr.journal.executions import executions_of_work
from awr.journal.journal import Reader, Writer
from awr.journal.sessions import lineage, session_by_id
from awr.journal.sources import EntityRow
from awr.operations.bootstrap import BootstrapRequest, BootstrapResult, bootstrap
from awr.operations.client import Conversation, known_binding, turn
from awr.operations.context import context_profile, incomplete, token_counter
from awr.operations.execution import ExecutionView
from awr.operations.fields import described, work_entity
from awr.operations.resume import ResumeRequest, resume
from awr.operations.selection import require_active, session_for_work, work_of
from awr.operations.session import StartRequest, started
from awr.project import Project
from awr.sources.index import RefreshReport, refresh, require_up_to_date

__all__ = ["BindRequest", "BindResult", "bind"]

#: How many o200k_base tokens the start of a bound conversation may have, and the context of one that goes on.
BUDGET = 5000
MAX_TRIES = 8


class BindRequest(Conversation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: Annotated[str, described("The work item's key in the ledger.")]
    session: Annotated[str | None, described("An active session of this work to attach the conversation to.")] = None
    from_session: Annotated[str | None, described("A session of this work to go on from in a new one.")] = None
    model: Annotated[str, described("A label for the model of a session that is begun.")] = NOT_REPORTED


class BindResult(msgspec.Struct, frozen=True, kw_only=True):
    """The binding, and what the conversation must know. `binding_reused` means that it was there, unchanged."""

    ok: Literal[True] = True
    project_revision: int
    read_only: bool
    binding: ClientBinding
    binding_reused: bool
    context: BootstrapResult
    executions: tuple[ExecutionView, ...]


def bind(project: Project, request: BindRequest) -> BindResult:
    """Bind a conversation: as it is bound already, to the session named, to one that goes on, or to a new one.

    Raise InvalidInput, RuleViolation, NotFound, InvalidTransition, SourceConflict, SourceStale, ContextIncomplete,
    RevisionConflict, BudgetExceeded, or Storage when the conversation's lock is not free in time.
    """
    _check(request)
    with turn(project, request):
        with project.journal.read() as reader:
            known = _reusable(reader, request)
        if known is not None:
            binding = known
            context = bootstrap(project, BootstrapRequest(session=known.session_id, budget=BUDGET))
        else:
            binding, context = _bound(project, request)
    with project.journal.read() as reader:
        running = executions_of_work(reader.database, work_of(session_by_id(reader.database, binding.session_id)))
        return BindResult(
            project_revision=reader.project_revision,
            read_only=known is not None,
            binding=binding,
            binding_reused=known is not None,
            context=context,
            executions=tuple(ExecutionView(one, is_uncertain(one)) for one in running),
        )


def _check(request: BindRequest) -> None:
    labels = [request.external_session, request.work, request.session, request.from_session, request.model]
    refuse_secrets(labels, what="the binding")
    external_id(request.external_session)
    validate_labels(agent_id=_agent(request), provider=request.host, model=request.model)
    if request.session is not None and request.from_session is not None:
        raise InvalidInput(
            "a conversation is attached to a session or goes on from one",
            got="both a session and one to go on from",
            expected="one of them, or neither",
            next_step="leave one of --session and --from-session out",
        )


def _agent(request: BindRequest) -> str:
    return agent_of(request.host, request.external_session)


def _reusable(reader: Reader, request: BindRequest) -> ClientBinding | None:
    """Return the binding there is, or None. Raise SourceConflict if it is another one, InvalidTransition if over."""
    known = known_binding(reader, request)
    if known is None:
        return None
    session = session_by_id(reader.database, known.session_id)
    same_work = session.work_item_id == work_entity(reader.database, request.work).id
    same_session = request.session in {None, session.id}
    over = session.status != "active"
    same_origin = request.from_session is None or _goes_on_from(reader, session, request.from_session)
    # Whoever goes on from this conversation's own session, once that is over, needs a conversation of its own.
    same_origin = same_origin or (over and request.from_session == session.id)
    if not (same_work and same_session and same_origin):
        raise SourceConflict(
            "this conversation is bound to something else",
            got="the same conversation with other work or another session",
            expected="what it was bound to",
            next_step="run awr client show to see it, or bind another conversation",
            session=session.id,
        )
    if over:
        raise InvalidTransition(
            "the session of this conversation is over",
            got=f"a session that is {session.status}",
            expected="an active session",
            next_step="open a new conversation and bind that with --from-session",
            session=session.id,
        )
    return known


def _bound(project: Project, request: BindRequest) -> tuple[ClientBinding, BootstrapResult]:
    """Bind and pack what the conversation must know, in one write: what does not fit leaves nothing bound."""
    refreshed = refresh(project)
    counter, profile = token_counter(project), context_profile(project)
    named = request.session
    if request.from_session is not None:
        named = _retried(partial(_go_on, project, request, request.from_session))
    with project.journal.write() as writer:
        work = work_entity(writer.database, request.work)
        session = _chosen(writer, request, work, named, refreshed)
        wanted = ContextRequest(session=session.id, budget=BUDGET)
        report = bootstrap_context(writer, wanted, counter=counter, profile=profile, refreshed=refreshed)
        packed = BootstrapResult(
            **msgspec.structs.asdict(report),
            project_revision=writer.own_revision,
            source_refresh_performed=True,
        )
        writer.append(
            "client.bound",
            {
                "client": request.host,
                "external_session": request.external_session,
                "context_hash": packed.context_hash,
                "context_revision": packed.project_revision,
            },
            summary="Conversation bound",
            work_item_id=work.id,
            session_id=session.id,
        )
        made = known_binding(writer, request)
        assert made is not None, "it was written in this transaction"
    counter.save()
    return made, packed


def _chosen(
    writer: Writer, request: BindRequest, work: EntityRow, named: str | None, refreshed: RefreshReport
) -> Session:
    """Return the session to bind: the one named, the one that waits for this conversation, or a new one."""
    if named is not None:
        found = session_for_work(writer, work, session=named, agent=None)
        require_active(found)
        return found
    waiting = _waiting(writer, request, work)
    if waiting is not None:
        return waiting
    require_up_to_date(refreshed)
    wanted = StartRequest(
        agent=_agent(request),
        provider=request.host,
        model=request.model,
        work=request.work,
        expected_revision=writer.project_revision,
    )
    return started(writer, wanted, None).session


def _waiting(reader: Reader, request: BindRequest, work: EntityRow) -> Session | None:
    """Return the active session of this conversation that nobody is bound to, or None. Raise SourceConflict."""
    found = [
        session_by_id(reader.database, one)
        for one in unbound_sessions(reader.database, agent_id=_agent(request), work_item_id=work.id)
    ]
    if request.from_session is not None:
        found = [one for one in found if _goes_on_from(reader, one, request.from_session)]
    if len(found) > 1:
        raise SourceConflict(
            "several active sessions wait for this conversation",
            got=f"{len(found)} sessions of its agent that nobody is bound to",
            expected="one",
            next_step="name the one to attach with --session; awr session list --active shows them",
        )
    return found[0] if found else None


def _goes_on_from(reader: Reader, session: Session, predecessor: str) -> bool:
    return lineage(reader.database, session.id)[1:2] == [predecessor]


def _go_on(project: Project, request: BindRequest, predecessor: str) -> str:
    """Return the session that goes on, begun unless it waits already.

    Raise what a resume raises, or ContextIncomplete when nothing was written.
    """
    with project.journal.read() as reader:
        waiting = _waiting(reader, request, work_entity(reader.database, request.work))
        if waiting is not None:
            return waiting.id
        revision = reader.project_revision
    wanted = ResumeRequest(
        agent=_agent(request),
        provider=request.host,
        model=request.model,
        work=request.work,
        session=predecessor,
        claim="none",
        budget=BUDGET,
        expected_revision=revision,
    )
    result = resume(project, wanted)
    if result.resumed is None:
        raise incomplete(result.context)
    return result.resumed.session.id


def _retried(save: Callable[[], str]) -> str:
    """Save again when another writer came first; the last refusal is the caller's."""
    for _ in range(MAX_TRIES - 1):
        try:
            return save()
        except RevisionConflict:
            continue
    return save()
