"""How a project stands now."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from awr.domain.card import Card
from awr.domain.organization import Organization, organization_of
from awr.domain.queue import queue_order
from awr.domain.work import WorkItem
from awr.errors import InvalidInput, NotFound
from awr.journal.journal import Reader
from awr.journal.pending import HeldWork, PendingOperation, held_work, pending_operations
from awr.journal.sessions import newest_sessions
from awr.journal.sources import live_sources
from awr.operations.fields import Branch, Cached, described, require_main
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.index import require_fresh

__all__ = [
    "Claims",
    "Omission",
    "PendingOperations",
    "Queue",
    "QueueEntry",
    "StatusRequest",
    "StatusResult",
    "status",
]

QUEUE_LENGTH = 5
_CURRENT = frozenset({"claimed", "in_progress"})
_DONE = frozenset({"completed", "cancelled"})


class StatusRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    view: Annotated[
        Literal["action", "summary", "full"],
        described("How much to show: queues and a card, counts alone, or both with the project."),
    ] = "action"
    work: Annotated[tuple[str, ...], described("Only this work item; may be repeated.")] = ()
    goal: Annotated[str | None, described("Only work for this goal.")] = None
    milestone: Annotated[str | None, described("Only work of this milestone.")] = None
    branch: Branch = None
    cached: Cached = False


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


class Claims(msgspec.Struct, frozen=True):
    """Up to five claims that hold now, the oldest first, and the exact total."""

    entries: tuple[HeldWork, ...]
    total: int


class PendingOperations(msgspec.Struct, frozen=True):
    """Up to five operations, the oldest of each kind first, and the exact total."""

    entries: tuple[PendingOperation, ...]
    total: int


class Omission(msgspec.Struct, frozen=True):
    """What this view leaves out: how many entries of what."""

    kind: Literal["queue", "active_claims", "pending_operations"]
    reference: str
    count: int
    reason: Literal["five_entries_at_most"] = "five_entries_at_most"


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
    history: dict[str, int] | UnsetType = UNSET
    active_claims: Claims | UnsetType = UNSET
    pending_operations: PendingOperations | UnsetType = UNSET
    omissions: tuple[Omission, ...] | UnsetType = UNSET
    scope: dict[str, Any] | UnsetType = UNSET
    current: tuple[QueueEntry, ...] | UnsetType = UNSET
    current_total: int | UnsetType = UNSET
    ready_count: int | UnsetType = UNSET
    blocked_count: int | UnsetType = UNSET
    next_action: str | UnsetType | None = UNSET
    suggested_work: str | UnsetType | None = UNSET
    organization: Organization | UnsetType = UNSET


def status(project: Project, request: StatusRequest) -> StatusResult:
    """Return where the project stands, or the work that a scope names.

    Several scopes narrow each other. Raise InvalidInput for a scope with the full view, NotFound for one that names
    nothing, SourceStale when the sources cannot be refreshed.
    """
    require_main(request.branch)
    scope = _scope(request)
    if scope and request.view == "full":
        raise InvalidInput(
            "the full view shows the whole project",
            got="a scope with the full view",
            expected="a scope with the action or summary view",
            next_step="leave the scope out, or ask for --view action",
        )
    if not request.cached:
        require_fresh(project)
    with project.journal.read() as reader:
        contents = Contents(reader)
        items = _in_scope(contents, request)
        living = [item for item in items if not item.archived]
        queues, counts = _queues(contents, living), Counter[str](item.status for item in living)
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
            scope=scope or UNSET,
        )
        if request.view == "summary":
            return result
        if request.view == "action":
            return _with_action(result, reader, items, queues, scoped=bool(scope))
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
            organization=organization_of(items, startable=suggested is not None),
        )


def _scope(request: StatusRequest) -> dict[str, Any]:
    stated = {"work": list(request.work), "goal": request.goal, "milestone": request.milestone}
    return {name: value for name, value in stated.items() if value}


def _in_scope(contents: Contents, request: StatusRequest) -> list[WorkItem]:
    items = contents.work_items()
    known = {item.external_key for item in items}
    for key in request.work:
        _require_named(key in known, "work item")
    if request.work:
        items = [item for item in items if item.external_key in request.work]
    if request.goal is not None:
        named = [item for item in items if request.goal in item.goals]
        _require_named(bool(named) or contents.identity("goal", request.goal) is not None, "goal")
        items = named
    if request.milestone is not None:
        named = [item for item in items if item.milestone == request.milestone]
        _require_named(bool(named) or contents.identity("plan", request.milestone) is not None, "milestone")
        items = named
    return items


def _require_named(found: bool, kind: str) -> None:
    if not found:
        raise NotFound(
            f"there is no such {kind}",
            expected=f"a {kind} that a source of this project names",
            next_step="run awr status without a scope, or awr search",
        )


def _with_action(
    result: StatusResult, reader: Reader, items: list[WorkItem], queues: dict[str, Queue], *, scoped: bool
) -> StatusResult:
    only = {item.external_key for item in items} if scoped else None
    held, pending = held_work(reader, only=only), pending_operations(reader, only=only)
    cut = {
        **{("queue", name): queue.total - len(queue.entries) for name, queue in queues.items()},
        ("active_claims", "active_claims"): len(held) - QUEUE_LENGTH,
        ("pending_operations", "pending_operations"): len(pending) - QUEUE_LENGTH,
    }
    return msgspec.structs.replace(
        result,
        queues=queues,
        guidance=_guidance(queues),
        history={
            "completed": sum(item.status == "completed" and not item.archived for item in items),
            "cancelled": sum(item.status == "cancelled" and not item.archived for item in items),
            "archived": sum(item.archived for item in items),
        },
        active_claims=Claims(tuple(held[:QUEUE_LENGTH]), len(held)),
        pending_operations=PendingOperations(tuple(pending[:QUEUE_LENGTH]), len(pending)),
        omissions=tuple(Omission(kind, name, count) for (kind, name), count in cut.items() if count > 0),  # type: ignore[arg-type]  # the kinds above
    )


def _queues(contents: Contents, items: list[WorkItem]) -> dict[str, Queue]:
    found: dict[str, list[WorkItem]] = {"current": [], "ready": [], "waiting": [], "blocked": []}
    for item in sorted(items, key=queue_order):
        if item.status in _CURRENT or (item.status not in _DONE and item.external_key in contents.claimed_keys):
            found["current"].append(item)
        elif item.status == "blocked":
            found["blocked"].append(item)
        elif item.status not in _DONE:
            found["waiting" if contents.diagnostics(item) else "ready"].append(item)
    return {
        name: Queue(entries=tuple(_entry(item) for item in queue[:QUEUE_LENGTH]), total=len(queue))
        for name, queue in found.items()
    }


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
