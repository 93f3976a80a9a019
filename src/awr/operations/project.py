"""How a project stands now."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from awr.domain.card import Card
from awr.domain.work import WorkItem
from awr.journal.journal import Reader
from awr.journal.sessions import newest_sessions
from awr.journal.sources import live_sources
from awr.operations.fields import Branch, described, require_main
from awr.operations.work import require_fresh
from awr.project import Project
from awr.sources.contents import Contents

__all__ = ["Queue", "QueueEntry", "StatusRequest", "StatusResult", "status"]

QUEUE_LENGTH = 5
_CURRENT = frozenset({"claimed", "in_progress"})
_DONE = frozenset({"completed", "cancelled"})


class StatusRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    view: Annotated[
        Literal["action", "summary", "full"],
        described("How much to show: queues and a card, counts alone, or both with the project."),
    ] = "action"
    branch: Branch = None
    cached: Annotated[bool, described("Answer from what was last indexed, without looking at the files.")] = False


class QueueEntry(msgspec.Struct, frozen=True):
    """A work item in one line."""

    external_key: str
    title: str
    status: str
    next_action: str | None


class Queue(msgspec.Struct, frozen=True):
    """Up to five entries and the exact total."""

    entries: tuple[QueueEntry, ...]
    total: int


class StatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """The project in the view that was asked for; fields of the other views are absent."""

    ok: Literal[True] = True
    view: str
    project_id: str
    project_revision: int
    freshness_basis: Literal["source_refresh", "last_recorded_source_state"]
    source_refresh_performed: bool
    read_only: Literal[True] = True
    branch_id: None = None
    stale_sources: int
    counts: dict[str, int]
    total: int
    active_sessions: int
    project: dict[str, str | None] | UnsetType = UNSET
    queues: dict[str, Queue] | UnsetType = UNSET
    guidance: Card | UnsetType = UNSET
    current: tuple[QueueEntry, ...] | UnsetType = UNSET
    current_total: int | UnsetType = UNSET
    ready_count: int | UnsetType = UNSET
    blocked_count: int | UnsetType = UNSET
    next_action: str | UnsetType | None = UNSET
    suggested_work: str | UnsetType | None = UNSET


def status(project: Project, request: StatusRequest) -> StatusResult:
    """Return where the project stands. Raise SourceStale when the sources cannot be refreshed."""
    require_main(request.branch)
    if not request.cached:
        require_fresh(project)
    with project.journal.read() as reader:
        queues, counts = _queues(reader)
        result = StatusResult(
            view=request.view,
            project_id=reader.project_id,
            project_revision=reader.project_revision,
            freshness_basis="last_recorded_source_state" if request.cached else "source_refresh",
            source_refresh_performed=not request.cached,
            stale_sources=sum(row.freshness != "fresh" for row in live_sources(reader.database)),
            counts=dict(counts),
            total=sum(counts.values()),
            active_sessions=len(newest_sessions(reader.database, active_only=True, before_revision=None, limit=1000)),
        )
        if request.view == "action":
            return msgspec.structs.replace(result, queues=queues, guidance=_guidance(queues))
        if request.view == "summary":
            return result
        suggested = next(iter((*queues["current"].entries, *queues["ready"].entries)), None)
        return msgspec.structs.replace(
            result,
            project={"name": reader.project.name, "external_key": reader.project.external_key},
            current=queues["current"].entries,
            current_total=queues["current"].total,
            ready_count=queues["ready"].total,
            blocked_count=queues["blocked"].total,
            next_action=suggested.next_action if suggested else None,
            suggested_work=suggested.external_key if suggested else None,
        )


def _queues(reader: Reader) -> tuple[dict[str, Queue], Counter[str]]:
    contents = Contents(reader)
    items = [item for item in contents.work_items() if not item.archived]
    found: dict[str, list[WorkItem]] = {"current": [], "ready": [], "waiting": [], "blocked": []}
    for item in items:
        if item.status in _CURRENT or (item.status not in _DONE and item.external_key in contents.claimed_keys):
            found["current"].append(item)
        elif item.status == "blocked":
            found["blocked"].append(item)
        elif item.status not in _DONE:
            found["waiting" if contents.diagnostics(item) else "ready"].append(item)
    queues = {
        name: Queue(entries=tuple(_entry(item) for item in queue[:QUEUE_LENGTH]), total=len(queue))
        for name, queue in found.items()
    }
    return queues, Counter(item.status for item in items)


def _entry(item: WorkItem) -> QueueEntry:
    return QueueEntry(item.external_key, item.title, item.status, item.next_action)


def _guidance(queues: dict[str, Queue]) -> Card:
    if queues["current"].total:
        return Card(
            when=f"{_items(queues['current'])} under way.",
            basis="The status that the ledger states and the claims on record.",
            next_action="Go on with the first of the current work, in the session that holds it.",
            recheck="When its status, its blocker or its claim changes.",
        )
    if queues["ready"].total:
        return Card(
            when=f"Nothing is under way and {_items(queues['ready'])} ready.",
            basis="The ledger's status, dependencies and blockers, and the claims on record.",
            next_action="Start a session for the first of the ready work, and claim it there.",
            recheck="When the session has started.",
        )
    return Card(
        when="No work is under way and none is ready.",
        basis=f"{queues['waiting'].total} waiting and {queues['blocked'].total} blocked, as the ledger states.",
        next_action="Look at what is in the way with awr work show, and change the ledger or add work to it.",
        recheck="When the ledger has changed.",
    )


def _items(queue: Queue) -> str:
    return f"{queue.total} work item is" if queue.total == 1 else f"{queue.total} work items are"
