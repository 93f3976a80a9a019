"""Which session a caller means, and whether it may still write."""

from __future__ import annotations

from awr.domain.session import Binding, Session
from awr.errors import InvalidInput, InvalidTransition, NotFound, RuleViolation
from awr.journal.journal import Reader
from awr.journal.sessions import newest_sessions, session_bound_to, session_by_id
from awr.journal.sources import EntityRow

__all__ = ["LOCAL_CLIENT", "bound_session", "require_active", "session_for_work", "work_of"]

#: The client of a binding that came through a local door, which authenticates nobody.
LOCAL_CLIENT = "stdio"


def require_active(session: Session) -> None:
    """Raise InvalidTransition unless the session is active."""
    if session.status != "active":
        raise InvalidTransition(
            "the session is not active",
            got=f"a session that is {session.status}",
            expected="an active session",
            next_step="go on in the session that took over, or start one",
        )


def bound_session(reader: Reader, *, session: str | None, conversation: str | None, client: str) -> Session:
    """Return the session named by its id, its conversation, or both if they agree.

    Raise InvalidInput for neither, NotFound, or RuleViolation when the two disagree.
    """
    if session is None and conversation is None:
        raise InvalidInput(
            "a session is named by its id or by its conversation",
            got="neither",
            expected="one of them",
            next_step="give the session's id, or --conversation",
        )
    found = None
    if conversation is not None:
        found = session_bound_to(reader.database, Binding(client=client, conversation=conversation))
        if found is None:
            raise NotFound(
                "no session is bound to that conversation",
                expected="a conversation that a session was started with",
                next_step="start a session with --conversation, or run awr session list",
            )
    named = session_by_id(reader.database, session) if session is not None else found
    assert named is not None
    if found is not None and found.id != named.id:
        raise RuleViolation(
            "the session and the conversation are not the same",
            got="a conversation of another session",
            expected="a session and its own conversation",
            next_step="leave one of them out",
        )
    return named


def session_for_work(reader: Reader, work: EntityRow, *, session: str | None, agent: str | None) -> Session:
    """Return the session that acts on a work item: the named one, or the only active one of the work and agent.

    Raise NotFound, InvalidInput when several fit, or RuleViolation when the named one is bound to other work.
    """
    if session is not None:
        named = session_by_id(reader.database, session)
        if named.work_item_id != work.id:
            raise RuleViolation(
                "the session is bound to other work",
                expected="a session of this work item",
                next_step="name a session that was started for this work",
            )
        return named
    active = newest_sessions(reader.database, active_only=True, before_revision=None, limit=1000)
    fitting = [one for one in active if one.work_item_id == work.id and agent in {None, one.agent_id}]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise InvalidInput(
            "several active sessions fit",
            got=f"{len(fitting)} sessions",
            expected="one",
            next_step="name the session with --session",
        )
    raise NotFound(
        "no active session is bound to this work",
        expected="an active session of this work item",
        next_step="start one with awr session start --work",
    )


def work_of(session: Session) -> str:
    """Return the id of the work a session is bound to. Raise InvalidInput when it is bound to none."""
    if session.work_item_id is None:
        raise InvalidInput(
            "the session is bound to no work",
            got="a session without a work item",
            expected="a session started with --work",
            next_step="start a session for the work item",
        )
    return session.work_item_id
