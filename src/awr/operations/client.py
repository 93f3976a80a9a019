"""What a bound conversation says of itself, and what it is bound to. Hosts' hooks call it: no call states a revision.

Each call is a process of its own that a host waits for; binding itself imports more and has a room beside this one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Annotated, Literal

import msgspec

from awr.chain import digest, journal_bytes
from awr.domain.binding import ClientBinding, HostName, Progress, external_id
from awr.domain.secrets import refuse_secrets
from awr.errors import NotFound, Storage
from awr.journal.bindings import client_binding
from awr.journal.journal import Reader
from awr.journal.sessions import session_by_id
from awr.operations.fields import described
from awr.operations.selection import require_active
from awr.project import Project
from awr.sources.locking import held_lock, private_folder

__all__ = [
    "Conversation",
    "ProgressRequest",
    "ProgressResult",
    "ShowRequest",
    "ShowResult",
    "known_binding",
    "progress",
    "show",
    "turn",
]

#: Hosts stop a hook after fifteen seconds; one that waits says so before.
PATIENCE_S = 10.0


class Conversation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which conversation of which host a request is about."""

    host: Annotated[HostName, described("Which host the conversation belongs to.", option="--client")]
    external_session: Annotated[str, described("The host's own id of the conversation.")]


class ProgressRequest(Conversation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    next_action: Annotated[str, described("The one thing to do next.")]
    digest: Annotated[str | None, described("What was done and found; left out, as said before.")] = None
    open_loops: Annotated[
        tuple[str, ...],
        described("Something unfinished, in place of what was said before; may be repeated.", option="--open-loop"),
    ] = ()
    clear_open_loops: Annotated[bool, described("Say that nothing is unfinished any more.")] = False


class ProgressResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[False] = False
    binding: ClientBinding


class ShowRequest(Conversation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing but the conversation."""


class ShowResult(msgspec.Struct, frozen=True, kw_only=True):
    """The binding, or null for a conversation that has none."""

    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    read_only: Literal[True] = True
    binding: ClientBinding | None


def progress(project: Project, request: ProgressRequest) -> ProgressResult:
    """Record how far a bound conversation is.

    Raise InvalidInput, RuleViolation, NotFound without a binding, InvalidTransition when its session is over, or
    Storage when the conversation's lock is not free in time.
    """
    refuse_secrets(msgspec.to_builtins(request), what="the progress")
    external_id(request.external_session)
    said = Progress.checked(
        next_action=request.next_action,
        digest=request.digest,
        open_loops=request.open_loops,
        clear_open_loops=request.clear_open_loops,
    )
    with turn(project, request), project.journal.write() as writer:
        known = known_binding(writer, request)
        if known is None:
            raise NotFound(
                "this conversation is not bound",
                expected="a conversation of this client that was bound to work",
                next_step="bind it with awr client bind, then repeat this",
            )
        session = session_by_id(writer.database, known.session_id)
        require_active(session)
        writer.append(
            "client.updated",
            {"client": known.client, "external_session": known.external_session, "progress": said},
            summary="Conversation said how far it is",
            work_item_id=session.work_item_id,
            session_id=session.id,
        )
        now = known_binding(writer, request)
        assert now is not None, "a binding is never taken back"
        return ProgressResult(project_revision=writer.project_revision, binding=now)


def show(project: Project, request: ShowRequest) -> ShowResult:
    """Return the binding of a conversation, or null. Raise InvalidInput."""
    external_id(request.external_session)
    with project.journal.read() as reader:
        return ShowResult(project_revision=reader.project_revision, binding=known_binding(reader, request))


def known_binding(reader: Reader, conversation: Conversation) -> ClientBinding | None:
    """Return the binding of a conversation, or None."""
    return client_binding(reader.database, client=conversation.host, external_session=conversation.external_session)


def turn(project: Project, conversation: Conversation) -> AbstractContextManager[None]:
    """Hold the lock of one conversation, so that its writers follow one another. Raise Storage after 10 seconds."""
    name = digest(journal_bytes([conversation.host, conversation.external_session]))
    busy = Storage(
        "another process is writing for this conversation",
        got="no turn within the waiting time",
        expected="one writer at a time",
        next_step="try again; if it stays so, look for an awr client command that does not end",
    )
    return held_lock(private_folder(project, "clients") / f"{name}.lock", busy=busy, patience_s=PATIENCE_S)
