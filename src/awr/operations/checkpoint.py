"""Saving where a session stands, in two durable steps, and waiting for a user's reply."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

import msgspec

from awr.domain.secrets import refuse_secrets
from awr.domain.session import Checkpoint, CheckpointDraft, Session, Wait, checked_draft, spoken_text
from awr.errors import CheckpointIncomplete, InvalidInput, InvalidTransition, RevisionConflict, RuleViolation
from awr.journal.checkpoints import checkpoint_by_id, latest_checkpoint, open_waits, wait_by_id, waits_of
from awr.journal.database import Database
from awr.journal.journal import Writer
from awr.journal.sessions import binding_of, newest_sessions, session_by_id
from awr.operations.fields import ExpectedRevision, described
from awr.operations.selection import LOCAL_CLIENT, bound_session, require_active
from awr.project import Project

__all__ = [
    "CheckpointRequest",
    "CheckpointResult",
    "ReplyRequest",
    "WaitRequest",
    "WaitResult",
    "WaitsRequest",
    "WaitsResult",
    "checkpoint",
    "reply",
    "wait",
    "waits",
]


class CheckpointRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    context_hash: Annotated[str, described("The context_hash the session worked from.")]
    digest: Annotated[str, described("What was done and found, in your words.")]
    next_action: Annotated[str, described("The one thing to do next.")]
    expected_revision: ExpectedRevision
    open_loops: Annotated[
        tuple[str, ...], described("Something unfinished; may be repeated.", option="--open-loop")
    ] = ()
    changed_entities: Annotated[
        tuple[str, ...], described("Something you changed; may be repeated.", option="--changed-entity")
    ] = ()
    session: Annotated[str | None, described("The session's id; left out, the only active one.")] = None
    conversation: Annotated[str | None, described("Find it by the conversation it is bound to.")] = None
    client: Annotated[str, described("Which client the conversation belongs to.")] = LOCAL_CLIENT
    agent: Annotated[str | None, described("The agent that saves; must be the session's own.")] = None


class CheckpointResult(msgspec.Struct, frozen=True, kw_only=True):
    """The saved checkpoint. Its hash is what the caller says; nothing was verified and no source was written."""

    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[False] = False
    checkpoint: Checkpoint
    session_delta: dict[str, Any]
    event_id: str
    context_hash_verified: Literal[False] = False
    source_work_updated: Literal[False] = False


class WaitRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    question: Annotated[str, described("What the user has to answer.")]
    context_hash: Annotated[str, described("The context_hash the session worked from.")]
    digest: Annotated[str, described("What was done and found, in your words.")]
    next_action: Annotated[str, described("What to do once the reply is there.")]
    expected_revision: ExpectedRevision
    open_loops: Annotated[
        tuple[str, ...], described("Something unfinished; may be repeated.", option="--open-loop")
    ] = ()
    session: Annotated[str | None, described("The session's id; left out, the only active one.")] = None
    conversation: Annotated[str | None, described("Find it by the conversation it is bound to.")] = None
    client: Annotated[str, described("Which client the conversation belongs to.")] = LOCAL_CLIENT


class WaitResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[False] = False
    wait: Wait
    checkpoint: Checkpoint | None
    event_id: str
    host_action: Literal["ask_the_user_and_stop", "continue_with_the_reply", "continue_without_a_reply"]


class ReplyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wait: Annotated[str, described("The wait's id.", argument=True)]
    reply: Annotated[str, described("What the user said, or why the wait is cancelled.")]
    expected_revision: ExpectedRevision
    cancel: Annotated[bool, described("Close the wait without an answer.")] = False
    client: Annotated[str, described("Which client replies; only the one that asked may.")] = LOCAL_CLIENT


class WaitsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: Annotated[str | None, described("The session's id.", argument=True)] = None
    conversation: Annotated[str | None, described("Find it by the conversation it is bound to.")] = None
    client: Annotated[str, described("Which client the conversation belongs to.")] = LOCAL_CLIENT


class WaitsResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    read_only: Literal[True] = True
    continuity_state: Literal["waiting_user", "available"]
    waits: tuple[Wait, ...]


def checkpoint(project: Project, request: CheckpointRequest) -> CheckpointResult:
    """Save a checkpoint. An attempt that another writer interrupts is kept as unfinished and is no recovery point.

    Raise InvalidInput, RuleViolation, NotFound, RevisionConflict, InvalidTransition or CheckpointIncomplete.
    """
    draft = checked_draft(
        CheckpointDraft(
            context_hash=request.context_hash,
            digest=request.digest,
            next_action=request.next_action,
            open_loops=request.open_loops,
            changed_entities=request.changed_entities,
        )
    )
    refuse_secrets(msgspec.to_builtins(draft), what="the checkpoint")
    with project.journal.write(expected_revision=request.expected_revision) as writer:
        session = _acting(writer, request.session, request.conversation, request.client)
        if request.agent is not None and request.agent != session.agent_id:
            raise RuleViolation(
                "another agent cannot save this session's checkpoint",
                expected="the agent the session was started with",
                next_step="take the work over with awr session resume",
            )
        attempt_id = _start(writer, session, draft)
        base = writer.project_revision
    return _finish(project, session, draft, attempt_id=attempt_id, base=base)


def wait(project: Project, request: WaitRequest) -> WaitResult:
    """Save a checkpoint, then record the question the session waits on. One open wait a session.

    Raise what a checkpoint raises, and InvalidTransition when a wait is open already.
    """
    question = spoken_text("question", request.question)
    refuse_secrets(question, what="the question")
    with project.journal.read() as reader:
        session = _acting(reader, request.session, request.conversation, request.client)
        if open_waits(reader.database, session.id):
            raise InvalidTransition(
                "this session waits already",
                got="an open wait",
                expected="no open wait",
                next_step="let the user answer it: awr session waits shows it",
            )
    saved = checkpoint(
        project,
        CheckpointRequest(
            context_hash=request.context_hash,
            digest=request.digest,
            next_action=request.next_action,
            open_loops=request.open_loops,
            session=session.id,
            expected_revision=request.expected_revision,
        ),
    )
    with project.journal.write(expected_revision=saved.project_revision) as writer:
        binding = binding_of(writer.database, session.id)
        wait_id = writer.new_id()
        event = writer.append(
            "mcp.wait_created",
            {
                "wait_id": wait_id,
                "client": binding.client if binding else request.client,
                "checkpoint_id": saved.checkpoint.id,
                "question": question,
            },
            summary="Waiting for the user",
            importance="high",
            work_item_id=session.work_item_id,
            session_id=session.id,
        )
        return WaitResult(
            project_revision=writer.project_revision,
            wait=wait_by_id(writer.database, wait_id),
            checkpoint=saved.checkpoint,
            event_id=event.id,
            host_action="ask_the_user_and_stop",
        )


def reply(project: Project, request: ReplyRequest) -> WaitResult:
    """Record the user's reply, or close the wait without one. Nothing is run by it.

    Raise NotFound, RuleViolation for another client, InvalidTransition for a wait that is resolved, RevisionConflict.
    """
    text = spoken_text("reply", request.reply)
    refuse_secrets(text, what="the reply")
    with project.journal.write(expected_revision=request.expected_revision) as writer:
        asked = wait_by_id(writer.database, request.wait)
        if asked.client != request.client:
            raise RuleViolation(
                "only the client that asked may resolve its wait",
                got="another client",
                expected="the client of the wait",
                next_step="reply through the client that asked",
            )
        if asked.status != "waiting_user":
            raise InvalidTransition(
                "the wait is resolved already",
                got=f"a wait that is {asked.status}",
                expected="an open wait",
                next_step="read the reply on record with awr session waits",
            )
        session = session_by_id(writer.database, asked.session_id)
        event = writer.append(
            "mcp.wait_replied",
            {"wait_id": asked.id, "status": "cancelled" if request.cancel else "answered", "reply": text},
            summary="Wait cancelled" if request.cancel else "The user replied",
            importance="high",
            work_item_id=session.work_item_id,
            session_id=session.id,
        )
        return WaitResult(
            project_revision=writer.project_revision,
            wait=wait_by_id(writer.database, asked.id),
            checkpoint=checkpoint_by_id(writer.database, asked.checkpoint_id),
            event_id=event.id,
            host_action="continue_without_a_reply" if request.cancel else "continue_with_the_reply",
        )


def waits(project: Project, request: WaitsRequest) -> WaitsResult:
    """Return the waits of a session and of those it continues, newest first. Raise NotFound or InvalidInput."""
    with project.journal.read() as reader:
        session = bound_session(
            reader, session=request.session, conversation=request.conversation, client=request.client
        )
        found = waits_of(reader.database, session.id)
        waiting = any(one.status == "waiting_user" for one in found)
        return WaitsResult(
            project_revision=reader.project_revision,
            continuity_state="waiting_user" if waiting else "available",
            waits=tuple(found),
        )


def _acting(reader: Any, session: str | None, conversation: str | None, client: str) -> Session:
    """Return the active session that acts: named, bound, or the only one there is."""
    if session is None and conversation is None:
        active = newest_sessions(reader.database, active_only=True, before_revision=None, limit=2)
        if len(active) != 1:
            raise InvalidInput(
                "which session is meant is not clear",
                got="no active session" if not active else "several active sessions",
                expected="one, or its id",
                next_step="name the session with --session",
            )
        return active[0]
    found = bound_session(reader, session=session, conversation=conversation, client=client)
    require_active(found)
    return found


def _start(writer: Writer, session: Session, draft: CheckpointDraft) -> str:
    return writer.append(
        "checkpoint.started",
        {"save_schema": 1, "base_project_revision": writer.project_revision, "draft": draft},
        summary="Checkpoint started",
        importance="low",
        work_item_id=session.work_item_id,
        session_id=session.id,
    ).id


def _finish(
    project: Project, session: Session, draft: CheckpointDraft, *, attempt_id: str, base: int
) -> CheckpointResult:
    try:
        with project.journal.write(expected_revision=base) as writer:
            delta = _session_delta(writer.database, session, draft, through=base)
            checkpoint_id = writer.new_id()
            event = writer.append(
                "checkpoint.created",
                {
                    "checkpoint_id": checkpoint_id,
                    "context_hash": draft.context_hash,
                    "digest": draft.digest,
                    "next_action": draft.next_action,
                    "open_loops": draft.open_loops,
                    "checkpoint_project_revision": base - 1,
                    "changed_entities": delta["changed_entities_observed"],
                    "attempt_id": attempt_id,
                    "session_delta": delta,
                },
                summary="Checkpoint saved",
                importance="high",
                work_item_id=session.work_item_id,
                session_id=session.id,
            )
            saved = latest_checkpoint(writer.database, session.id)
            assert saved is not None
            return CheckpointResult(
                project_revision=writer.project_revision, checkpoint=saved, session_delta=delta, event_id=event.id
            )
    except RevisionConflict as conflict:
        raise CheckpointIncomplete(
            "another writer came between the two steps of this save",
            got=f"revision {conflict.details['actual']}",
            expected=f"revision {base}",
            next_step="save again; the unfinished attempt is no recovery point, and awr doctor shows it",
            attempt_id=attempt_id,
            reason="RevisionConflict",
        ) from conflict


def _session_delta(database: Database, session: Session, draft: CheckpointDraft, *, through: int) -> dict[str, Any]:
    """Tell what happened since the last checkpoint: the session's own events, and what the sources showed."""
    previous = latest_checkpoint(database, session.id)
    after = previous.project_revision if previous else session.start_project_revision
    own = database.rows(
        "SELECT event_type FROM events WHERE session_id = ? AND project_revision > ? AND project_revision <= ?",
        (session.id, after, through),
    )
    changes = database.rows(
        "SELECT DISTINCT json_extract(value, '$.kind') || ':' || json_extract(value, '$.external_key') AS entity "
        "FROM events, json_each(events.payload, '$.changes') WHERE event_type LIKE 'source.%' "
        "AND project_revision > ? AND project_revision <= ? ORDER BY entity",
        (after, through),
    )
    return {
        "schema": 1,
        "after_revision": after,
        "through_revision": through,
        "session_events": dict(sorted(Counter(row["event_type"] for row in own).items())),
        "changed_entities_observed": [row["entity"] for row in changes],
        "changed_entities_reported": list(draft.changed_entities),
        "notes": ["observed changes come from the sources, whoever made them; reported ones are the caller's"],
    }
