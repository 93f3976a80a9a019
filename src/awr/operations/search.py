"""Finding goals, plans, rules, work, evidence and events by their words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from awr.domain.work import Freshness
from awr.errors import InvalidInput, NotFound
from awr.journal.journal import Reader
from awr.journal.search import POLICY_VERSION, Document, Found, SearchIndex, evidence_documents
from awr.journal.sessions import sessions_of
from awr.journal.sources import entities_of_source, entity, live_sources
from awr.operations.fields import Cached, VisibleTo, described
from awr.project import Project
from awr.sources.contents import Contents, Described, Kind
from awr.sources.index import require_fresh

__all__ = ["Hit", "SearchRequest", "SearchResult", "search"]

MAX_TEXT = 500


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Annotated[
        str | None, described("Words that must all occur, up to 500 characters; none to list.", argument=True)
    ] = None
    kind: Annotated[
        Literal["goal", "plan", "rule", "work_item", "work", "decision", "evidence", "event"] | None,
        described("Only this kind; work is short for work_item."),
    ] = None
    status: Annotated[str | None, described("Only goals, plans and work of exactly this status.")] = None
    work: Annotated[str | None, described("Only this work item, its evidence and its events.")] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=100, description="How many hits at the most.")] = 10
    cached: Cached = False
    visible_to: VisibleTo = None


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One match. `title` has up to 160 characters and `summary` up to 280. The lower the rank, the better."""

    id: str
    kind: str
    external_key: str | None
    title: str
    summary: str | None
    status: str | None
    work_item_key: str | None
    source_ref: str | None
    source_freshness: Freshness | None
    origin: Literal["source", "runtime"]
    revision: int
    rank: float


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["source_refresh", "last_recorded_source_state"]
    source_refresh_performed: bool
    read_only: Literal[True] = True
    query: str | None
    hits: tuple[Hit, ...]
    truncated: bool
    index_policy_version: int


def search(project: Project, request: SearchRequest) -> SearchResult:
    """Return the best matches. Raise InvalidInput, NotFound for an unknown work item, or SourceStale."""
    text = _checked(request.text)
    if not request.cached:
        require_fresh(project)
    with project.journal.read() as reader:
        if request.work is not None and entity(reader.database, kind="work_item", external_key=request.work) is None:
            raise NotFound(
                "there is no such work item",
                expected="the key of a work item of this project",
                next_step="search without a work item, or run awr status to see the work",
            )
        with SearchIndex.open(project.cache_folder) as index:
            index.refresh(reader, _documents(reader))
            found = index.search(
                text,
                kind="work_item" if request.kind == "work" else request.kind,
                status=request.status,
                work=request.work,
                limit=request.limit + 1,
                sessions=None if request.visible_to is None else sessions_of(reader.database, request.visible_to),
            )
        freshness = {row.id: row.freshness for row in live_sources(reader.database)}
        return SearchResult(
            project_revision=reader.project_revision,
            freshness_basis="last_recorded_source_state" if request.cached else "source_refresh",
            source_refresh_performed=not request.cached,
            query=text,
            hits=tuple(_hit(each, freshness) for each in found[: request.limit]),
            truncated=len(found) > request.limit,
            index_policy_version=POLICY_VERSION,
        )


def _checked(text: str | None) -> str | None:
    if text is None or (text.strip() and len(text) <= MAX_TEXT):
        return text
    raise InvalidInput(
        "the text to search for is blank or too long",
        got=f"{len(text)} characters" if text.strip() else "blank text",
        expected=f"1 to {MAX_TEXT} characters",
        next_step="search for a few words",
    )


def _hit(found: Found, freshness: dict[str, Freshness]) -> Hit:
    document = found.document
    source_id = document.source_id
    return Hit(
        id=document.id,
        kind=document.kind,
        external_key=document.external_key,
        title=document.title,
        summary=document.summary,
        status=document.status,
        work_item_key=document.work_item_key,
        source_ref=document.source_ref,
        source_freshness=None if source_id is None else freshness.get(source_id, "unavailable"),
        origin="runtime" if source_id is None else "source",
        revision=document.revision,
        rank=found.rank,
    )


def _documents(reader: Reader) -> Iterator[Document]:
    contents = Contents(reader)
    sources = live_sources(reader.database)
    places = {row.id: row.locator for row in sources}
    known = {
        (one.kind, one.external_key): one for row in sources for one in entities_of_source(reader.database, row.id)
    }

    def document(kind: Kind, item: Described, **fields: str | None) -> Document:
        identity = known[kind, item.external_key]
        terms = fields.pop("terms", None)
        return Document(
            kind=kind,
            id=identity.id,
            external_key=item.external_key,
            title=item.title,
            source_id=identity.source_id,
            source_ref=f"{places[identity.source_id]}:{item.line}",
            revision=identity.revision,
            terms=terms or "",
            **fields,
        )

    for goal in contents.goals():
        yield document("goal", goal, status=goal.status, summary=goal.summary)
    for plan in contents.plans():
        yield document("plan", plan, status=plan.status, summary=plan.summary)
    for rule in contents.rules():
        yield document("rule", rule, summary=rule.text or None)
    for item in contents.work_items():
        words = (*item.tags, *item.goals, item.milestone or "", item.owner or "")
        yield document(
            "work_item",
            item,
            status=item.status,
            summary=item.summary,
            work_item_key=item.external_key,
            terms=" ".join(words),
        )
    yield from evidence_documents(reader)
