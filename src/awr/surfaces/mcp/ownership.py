"""Whose session a call speaks of. On the shared service a client acts on its own sessions and sees no other's."""

from __future__ import annotations

from typing import Any

import msgspec

from awr.errors import AwrError, InvalidInput, NotFound, RuleViolation
from awr.journal.checkpoints import checkpoint_by_id
from awr.journal.executions import execution_by_id, execution_by_key
from awr.journal.journal import Reader
from awr.journal.proposals import proposal_by_id
from awr.journal.sessions import is_visible
from awr.operations.selection import bound_session

__all__ = ["Caller", "meant_session", "require_own", "require_scope"]


class Caller(msgspec.Struct, frozen=True):
    """Who asks. `authenticated` is false on a local door, whose one client is whoever started it."""

    client: str
    authenticated: bool


def meant_session(reader: Reader, caller: Caller, *, session: str | None, conversation: str | None) -> str:
    """Return the id of the session that a call names by its id, its conversation, or both.

    Raise NotFound, RuleViolation when the two disagree or the session is another client's, InvalidInput for neither.
    """
    found = bound_session(reader, session=session, conversation=conversation, client=caller.client)
    if caller.authenticated and not is_visible(reader.database, found.id, client=caller.client):
        raise _denied()
    return found.id


def require_own(reader: Reader, caller: Caller, fields: dict[str, Any]) -> None:
    """Refuse what belongs to another client's session. A local caller may name everything.

    Raise RuleViolation; what does not exist at all is left to the operation to say.
    """
    if not caller.authenticated:
        return
    report = fields.get("report")
    named = {
        "to_session": fields.get("to_session"),
        "execution": fields.get("execution") or (report.get("execution_id") if isinstance(report, dict) else None),
        "operation_key": fields.get("operation_key"),
        "proposal": fields.get("proposal"),
        "checkpoint": fields.get("checkpoint"),
    }
    for kind, value in named.items():
        if isinstance(value, str):
            owner = _session_behind(reader, kind, value)
            if not is_visible(reader.database, owner, client=caller.client):
                raise _denied()


def require_scope(caller: Caller, fields: dict[str, Any]) -> None:
    """Refuse a shared compile that names no session: a guess could be another client's. Raise InvalidInput."""
    detached = fields.get("detached") is True and fields.get("work") is not None
    if caller.authenticated and fields.get("session") is None and not detached:
        raise InvalidInput(
            "on a shared service a context is compiled for a session, or for work without one",
            got="neither a session nor detached work",
            expected="session, conversation, or detached with work",
            next_step="name your session, or give work with detached set to true",
        )


def _session_behind(reader: Reader, kind: str, value: str) -> str | None:
    try:
        if kind == "execution":
            return execution_by_id(reader.database, value).session_id
        if kind == "operation_key":
            known = execution_by_key(reader.database, value)
            return known.session_id if known else None
        if kind == "proposal":
            return proposal_by_id(reader, value).created_by_session
        if kind == "checkpoint":
            found = checkpoint_by_id(reader.database, value)
            return found.session_id if found else None
    except NotFound:
        return None
    return value


def _denied() -> AwrError:
    return RuleViolation(
        "session access denied",
        got="a session of another client",
        expected="a session that this client bound to a conversation",
        next_step="name your own session, or find it with awr_session_list",
    )
