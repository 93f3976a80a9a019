"""Which work a context is about: named, the session's, or the only one under way."""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.context.request import ContextRequest
from awr.domain.session import Session
from awr.domain.work import WorkItem
from awr.errors import InvalidInput, RuleViolation
from awr.journal.journal import Reader
from awr.journal.sessions import session_by_id
from awr.journal.sources import EntityRow, entity, entity_by_id
from awr.sources.contents import Contents

__all__ = ["Selection", "SelectionBasis", "select"]

SelectionBasis = Literal[
    "explicit_work",
    "explicit_work_detached_session",
    "session",
    "session_work_retired",
    "source_current",
    "explicit_work_missing",
    "none",
]
_CURRENT = ("claimed", "in_progress")


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The work and who it is for. `item` is None where no source describes it now; `key` is what was looked for."""

    basis: SelectionBasis
    key: str | None
    work: EntityRow | None
    item: WorkItem | None
    session: Session | None
    agent: str | None


def select(reader: Reader, contents: Contents, request: ContextRequest) -> Selection:
    """Choose the work. Raise NotFound for an unknown session, RuleViolation when it is another's or of other work,
    and InvalidInput when several items are under way and none is named.
    """
    session = session_by_id(reader.database, request.session) if request.session is not None else None
    agent = _agent(request, session)
    if request.work is not None:
        work = entity(reader.database, kind="work_item", external_key=request.work)
        item = contents.work_item(request.work)
        if session is not None and session.work_item_id != (work.id if work else None):
            raise _mismatch("bound to other work", "a session of this work item")
        basis: SelectionBasis = "explicit_work_detached_session" if request.detached else "explicit_work"
        found = basis if item is not None else "explicit_work_missing"
        return _selection(found, request.work, work, item, session=session, agent=agent)
    if session is not None and session.work_item_id is not None:
        work = entity_by_id(reader.database, session.work_item_id)
        key = work.external_key if work else None
        item = contents.work_item(key) if key is not None else None
        basis = "session" if item is not None else "session_work_retired"
        return _selection(basis, key, work, item, session=session, agent=agent)
    return _only_current(reader, contents, session=session, agent=agent)


def _only_current(reader: Reader, contents: Contents, *, session: Session | None, agent: str | None) -> Selection:
    current = [item for item in contents.work_items() if item.status in _CURRENT and not item.archived]
    if len(current) > 1:
        raise InvalidInput(
            "several work items are under way",
            got=f"{len(current)} that are claimed or in progress",
            expected="one, or the name of the one you mean",
            next_step="name the work with --work, or a session with --session",
        )
    if not current:
        return _selection("none", None, None, None, session=session, agent=agent)
    item = current[0]
    work = entity(reader.database, kind="work_item", external_key=item.external_key)
    return _selection("source_current", item.external_key, work, item, session=session, agent=agent)


def _agent(request: ContextRequest, session: Session | None) -> str | None:
    if session is not None and request.agent not in {None, session.agent_id}:
        raise _mismatch("another agent's", "the agent that the session was started with")
    return session.agent_id if session is not None else request.agent


def _selection(
    basis: SelectionBasis,
    key: str | None,
    work: EntityRow | None,
    item: WorkItem | None,
    *,
    session: Session | None,
    agent: str | None,
) -> Selection:
    return Selection(basis=basis, key=key, work=work, item=item, session=session, agent=agent)


def _mismatch(what: str, expected: str) -> RuleViolation:
    return RuleViolation(
        f"the session is {what}",
        expected=expected,
        next_step="run awr session show to see it, or leave one of the two out",
    )
