"""How work depends on work: one closure, whole or not at all."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.chain import digest, journal_bytes
from awr.domain.graph import Closure, Link, closure_of
from awr.errors import BudgetExceeded, InvalidInput
from awr.journal.journal import Reader
from awr.journal.sources import live_sources
from awr.operations.fields import Branch, Cached, described, require_main, work_entity
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.index import require_fresh

__all__ = ["GraphRequest", "GraphResult", "Node", "SourceReference", "graph"]

MAX_ROOTS = 100


class GraphRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    roots: Annotated[
        tuple[str, ...], described("Work items to start from, up to 100; left out, all of them.", argument=True)
    ] = ()
    limit: Annotated[
        int, msgspec.Meta(ge=1, le=1000, description="How many work items the graph may have at the most.")
    ] = 100
    branch: Branch = None
    cached: Cached = False


class SourceReference(msgspec.Struct, frozen=True):
    """Where a work item is written, and in which version of the file."""

    locator: str
    line: int
    source_revision: int
    source_fingerprint: str | None


class Node(msgspec.Struct, frozen=True):
    """One work item of the graph. `ready` and `active_claims` hold at `evaluated_at`."""

    key: str
    title: str
    status: str
    ready: bool
    active_claims: int
    source_ref: SourceReference


class GraphResult(msgspec.Struct, frozen=True, kw_only=True):
    """The roots, what depends on them, and everything required by any of these. Nothing is left out.

    `affected` has the dependents of the roots. `cycle` is the first of `cycles`, or null. `complete` is false while
    something required is missing. The fingerprint covers keys, statuses and edges, and neither time nor revision.
    Nothing here admits an execution.
    """

    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["source_refresh", "last_recorded_source_state"]
    source_refresh_performed: bool
    read_only: Literal[True] = True
    branch_id: None = None
    evaluated_at: int
    roots: tuple[str, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Link, ...]
    affected: tuple[str, ...]
    missing_required: tuple[Link, ...]
    cycle: tuple[str, ...] | None
    cycles: tuple[tuple[str, ...], ...]
    graph_valid: bool
    complete: bool
    graph_fingerprint: str
    execution_admitted: Literal[False] = False


def graph(project: Project, request: GraphRequest) -> GraphResult:
    """Return the closure of some work items in the graph of dependencies.

    Raise NotFound for an unknown root, InvalidInput for more than 100, BudgetExceeded for a closure larger than
    `limit`, SourceStale when the sources cannot be refreshed.
    """
    require_main(request.branch)
    if len(request.roots) > MAX_ROOTS:
        raise InvalidInput(
            "the graph has too many roots",
            got=f"{len(request.roots)} work items",
            expected=f"at most {MAX_ROOTS}",
            next_step="start from fewer work items, or leave them out for the whole graph",
        )
    if not request.cached:
        require_fresh(project)
    with project.journal.read() as reader:
        for root in request.roots:
            work_entity(reader.database, root)
        contents = Contents(reader)
        items = {item.external_key: item for item in contents.work_items()}
        roots = tuple(dict.fromkeys(request.roots)) or tuple(sorted(items))
        found = closure_of(items, roots=roots)
        if len(found.keys) > request.limit:
            raise BudgetExceeded(
                required=len(found.keys),
                budget=request.limit,
                what="the graph has more work items than the limit, and none of them may be left out",
                next_step="raise the limit, up to 1000, or start from other work items",
            )
        nodes = _nodes(reader, contents, found)
        return GraphResult(
            project_revision=reader.project_revision,
            freshness_basis="last_recorded_source_state" if request.cached else "source_refresh",
            source_refresh_performed=not request.cached,
            evaluated_at=reader.now,
            roots=roots,
            nodes=nodes,
            edges=found.links,
            affected=found.affected,
            missing_required=found.missing,
            cycle=next(iter(found.cycles), None),
            cycles=found.cycles,
            graph_valid=not found.missing and not found.cycles,
            complete=not found.missing,
            graph_fingerprint=_fingerprint(nodes, found),
        )


def _nodes(reader: Reader, contents: Contents, found: Closure) -> tuple[Node, ...]:
    sources = {row.id: row for row in live_sources(reader.database)}
    nodes = []
    for key in found.keys:
        item, known = contents.work_item(key), contents.identity("work_item", key)
        assert item is not None
        assert known is not None
        source = sources[known.source_id]
        place = SourceReference(source.locator, item.line, source.source_revision, source.fingerprint)
        claims = int(key in contents.claimed_keys)
        nodes.append(Node(key, item.title, item.status, not contents.diagnostics(item), claims, place))
    return tuple(nodes)


def _fingerprint(nodes: tuple[Node, ...], found: Closure) -> str:
    content = {"nodes": [(node.key, node.status) for node in nodes], "edges": found.links}
    return "sha256:" + digest(journal_bytes(content))
