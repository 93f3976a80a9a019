"""Looking at one work item."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from awr.domain.session import Claim
from awr.domain.work import Diagnostic, Freshness, WorkItem
from awr.journal.checkpoints import newest_checkpoint_of_work
from awr.journal.sessions import active_claim
from awr.journal.sources import EntityRow, source_by_id
from awr.operations.evidence import EvidenceView, SourceReference, evidence_views, source_references
from awr.operations.fields import Branch, Cached, VisibleTo, WorkKey, described, require_main, work_entity
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.index import require_fresh

__all__ = ["ActiveClaim", "ShowRequest", "ShowResult", "WorkView", "show", "work_view"]

SUMMARY_CHARACTERS = 240


class ShowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    source_sha: Annotated[str | None, described("Say whether its evidence speaks of this commit.")] = None
    branch: Branch = None
    cached: Cached = False
    visible_to: VisibleTo = None


class ActiveClaim(msgspec.Struct, frozen=True):
    """Who holds a work item now."""

    id: str
    agent_id: str
    session_id: str
    expires_at: int | None


class WorkView(msgspec.Struct, frozen=True, kw_only=True):
    """A work item in brief, with what keeps it from being claimed."""

    id: str
    external_key: str
    title: str
    source_ref: str
    archived: bool
    status: str
    raw_status: str | None
    summary: str | None
    priority: str | None
    milestone: str | None
    owner: str | None
    next_action: str | None
    blocker: str | None
    revision: int
    source_revision: int
    freshness: Freshness
    ready: bool
    diagnostics: tuple[Diagnostic, ...]
    active_claims: tuple[ActiveClaim, ...]


class CurrencyBasis(msgspec.Struct, frozen=True):
    """What evidence was compared with. Without a commit nobody can say that it is current."""

    requested_source_sha: str | None
    branch_id: None = None


class Progress(msgspec.Struct, frozen=True):
    """The next action as the ledger has it, and as the newest checkpoint of this work has it."""

    source_next_action: str | None
    latest_checkpoint_next_action: str | None


class ShowResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["source_refresh", "last_recorded_source_state"]
    source_refresh_performed: bool
    read_only: Literal[True] = True
    work: WorkView
    acceptance: tuple[str, ...]
    source_ref: str
    required_dependencies: tuple[dict[str, Any], ...]
    missing_dependencies: tuple[str, ...]
    dependency_cycles: tuple[str, ...]
    evidence: tuple[EvidenceView, ...]
    source_references: tuple[SourceReference, ...]
    evidence_currency_basis: CurrencyBasis
    progress: Progress


def show(project: Project, request: ShowRequest) -> ShowResult:
    """Return one work item. Raise NotFound, or SourceStale for a project whose sources cannot be refreshed."""
    require_main(request.branch)
    if not request.cached:
        require_fresh(project)
    with project.journal.read() as reader:
        contents = Contents(reader)
        known = work_entity(reader.database, request.work)
        item = contents.work_item(request.work)
        assert item is not None, "an entity that is not retired has content"
        source = source_by_id(reader.database, known.source_id)
        claim = active_claim(reader.database, known.id)
        saved = newest_checkpoint_of_work(reader.database, known.id, client=request.visible_to)
        held = claim is not None and (claim.expires_at is None or claim.expires_at > reader.now)
        view = work_view(
            item,
            known,
            locator=source.locator if source else "",
            source_revision=source.source_revision if source else 0,
            freshness=contents.freshness(item.external_key),
            diagnostics=contents.diagnostics(item),
            claim=claim if held else None,
        )
        return ShowResult(
            project_revision=reader.project_revision,
            freshness_basis="last_recorded_source_state" if request.cached else "source_refresh",
            source_refresh_performed=not request.cached,
            work=view,
            acceptance=item.acceptance,
            source_ref=view.source_ref,
            required_dependencies=tuple(_dependencies(contents, item)),
            missing_dependencies=_named(view, "missing_dependency"),
            dependency_cycles=_named(view, "dependency_cycle"),
            evidence=evidence_views(reader, known.id, source_sha=request.source_sha),
            source_references=source_references(item),
            evidence_currency_basis=CurrencyBasis(request.source_sha),
            progress=Progress(item.next_action, saved.next_action if saved else None),
        )


def work_view(
    item: WorkItem,
    known: EntityRow,
    *,
    locator: str,
    source_revision: int,
    freshness: Freshness,
    diagnostics: tuple[Diagnostic, ...],
    claim: Claim | None,
) -> WorkView:
    """Bring together what the file, the journal and the rules say of one work item."""
    return WorkView(
        id=known.id,
        external_key=item.external_key,
        title=item.title,
        source_ref=f"{locator}:{item.line}",
        archived=item.archived,
        status=item.status,
        raw_status=item.raw_status,
        summary=item.summary[:SUMMARY_CHARACTERS] if item.summary else item.summary,
        priority=item.priority,
        milestone=item.milestone,
        owner=item.owner,
        next_action=item.next_action,
        blocker=item.blocker,
        revision=known.revision,
        source_revision=source_revision,
        freshness=freshness,
        ready=not diagnostics,
        diagnostics=diagnostics,
        active_claims=(ActiveClaim(claim.id, claim.agent_id, claim.session_id, claim.expires_at),) if claim else (),
    )


def _dependencies(contents: Contents, item: WorkItem) -> list[dict[str, Any]]:
    found = []
    for dependency in item.depends_on:
        target = contents.work_item(dependency.key) if dependency.required else None
        if target is not None:
            found.append({"external_key": target.external_key, "title": target.title, "status": target.status})
    return found


def _named(view: WorkView, code: str) -> tuple[str, ...]:
    return tuple(diagnostic.work_item_key for diagnostic in view.diagnostics if diagnostic.code == code)
