"""Which work may be claimed now, and what keeps the rest."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

import msgspec

from awr.domain.organization import Organization, organization_of
from awr.domain.queue import queue_order
from awr.domain.work import Diagnostic, WorkItem
from awr.journal.journal import Reader
from awr.journal.sessions import active_claim
from awr.journal.sources import live_sources
from awr.operations.fields import Branch, Cached, require_main
from awr.operations.work import WorkView, work_view
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.index import require_fresh

__all__ = ["BlockedWork", "ReadyRequest", "ReadyResult", "ready"]

BLOCKED_SAMPLE = 3
_CURRENT = frozenset({"claimed", "in_progress"})
_DONE = frozenset({"completed", "cancelled"})


class ReadyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=100, description="How many work items at the most.")] = 10
    branch: Branch = None
    cached: Cached = False


class BlockedWork(msgspec.Struct, frozen=True):
    """Open work that cannot be claimed anew, with the reasons."""

    external_key: str
    title: str
    status: str
    diagnostics: tuple[Diagnostic, ...]


class ReadyResult(msgspec.Struct, frozen=True, kw_only=True):
    """Ready work in the order of its priority, score and key, with exact totals.

    `blocked_total` counts open work that cannot be claimed anew: all that is neither ready, completed, cancelled
    nor archived. `diagnostic_counts` counts those work items by reason; one may have several.
    """

    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["source_refresh", "last_recorded_source_state"]
    source_refresh_performed: bool
    read_only: Literal[True] = True
    branch_id: None = None
    queue_basis: Literal["eligible_for_new_claim"] = "eligible_for_new_claim"
    ready: tuple[WorkView, ...]
    ready_total: int
    truncated: bool
    blocked_total: int
    blocked_sample: tuple[BlockedWork, ...]
    diagnostic_counts: dict[str, int]
    organization: Organization


def ready(project: Project, request: ReadyRequest) -> ReadyResult:
    """Return the work that a session may claim now. Raise SourceStale when the sources cannot be refreshed."""
    require_main(request.branch)
    if not request.cached:
        require_fresh(project)
    with project.journal.read() as reader:
        contents = Contents(reader)
        known = contents.work_items()
        items = [item for item in known if not item.archived and item.status not in _DONE]
        found = {item.external_key: contents.diagnostics(item) for item in items}
        items.sort(key=queue_order)
        free = [item for item in items if not found[item.external_key]]
        held_up = [item for item in items if found[item.external_key]]
        counts = Counter(code for item in held_up for code in {each.code for each in found[item.external_key]})
        return ReadyResult(
            project_revision=reader.project_revision,
            freshness_basis="last_recorded_source_state" if request.cached else "source_refresh",
            source_refresh_performed=not request.cached,
            ready=tuple(_views(reader, contents, free[: request.limit])),
            ready_total=len(free),
            truncated=len(free) > request.limit,
            blocked_total=len(held_up),
            blocked_sample=tuple(
                BlockedWork(item.external_key, item.title, item.status, found[item.external_key])
                for item in held_up[:BLOCKED_SAMPLE]
            ),
            diagnostic_counts=dict(sorted(counts.items())),
            organization=organization_of(
                known, startable=bool(free) or any(item.status in _CURRENT for item in items)
            ),
        )


def _views(reader: Reader, contents: Contents, items: list[WorkItem]) -> list[WorkView]:
    sources = {row.id: row for row in live_sources(reader.database)}
    views = []
    for item in items:
        known = contents.identity("work_item", item.external_key)
        assert known is not None, "content always has an identity"
        claim = active_claim(reader.database, known.id)
        held = claim is not None and (claim.expires_at is None or claim.expires_at > reader.now)
        views.append(
            work_view(
                item,
                known,
                locator=sources[known.source_id].locator,
                source_revision=sources[known.source_id].source_revision,
                freshness=contents.freshness(item.external_key),
                diagnostics=(),
                claim=claim if held else None,
            )
        )
    return views
