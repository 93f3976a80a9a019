"""The project's own files: listing them, seeing what changed, and parsing them again."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.domain.work import Freshness
from awr.errors import AwrError, NotFound, SourceStale
from awr.journal.sources import EntityRow, SourceRow, entities_of_source, live_sources, source_by_id
from awr.operations.fields import OptionalRevision, described
from awr.project import Project
from awr.sources import index
from awr.sources.index import RefreshReport

__all__ = [
    "ListRequest",
    "ListResult",
    "RefreshResult",
    "ReindexRequest",
    "ScanRequest",
    "ShowRequest",
    "ShowResult",
    "SourceView",
    "listing",
    "reindex",
    "scan",
    "show",
]


class SourceView(msgspec.Struct, frozen=True):
    """One source as last recorded."""

    id: str
    domain: str
    role: str
    locator: str
    adapter: str
    fingerprint: str | None
    source_revision: int
    freshness: Freshness
    warnings: int


class ListRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ListResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["last_recorded_source_state"] = "last_recorded_source_state"
    source_refresh_performed: Literal[False] = False
    read_only: Literal[True] = True
    sources: tuple[SourceView, ...]


class ScanRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ReindexRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    force: Annotated[bool, described("Parse every source, changed or not.")] = False
    expected_revision: OptionalRevision = None


class RefreshResult(RefreshReport, frozen=True, kw_only=True):
    """A refresh report, which also says what is wrong when a source could not be brought up to date."""

    def problem(self) -> AwrError | None:
        """Return the error that an incomplete refresh means, or None."""
        if not self.issues:
            return None
        first = self.issues[0]
        return SourceStale(
            f"{first.locator}: {first.message}",
            expected="every source readable and valid",
            next_step=first.next_step or "correct the file, then run awr source reindex",
            location=first.location,
            source_code=first.code,
        )


class ShowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: Annotated[str, described("The source's id, or its path as the manifest has it.", argument=True)]


class ShowResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["last_recorded_source_state"] = "last_recorded_source_state"
    source_refresh_performed: Literal[False] = False
    read_only: Literal[True] = True
    source: SourceView
    entities: tuple[EntityRow, ...]


def listing(project: Project, request: ListRequest) -> ListResult:
    """Return the sources as last recorded."""
    with project.journal.read() as reader:
        rows = live_sources(reader.database)
        return ListResult(project_revision=reader.project_revision, sources=tuple(_view(row) for row in rows))


def scan(project: Project, request: ScanRequest) -> RefreshResult:
    """Find out which sources changed, and record that they are stale."""
    return _result(index.scan(project))


def reindex(project: Project, request: ReindexRequest) -> RefreshResult:
    """Parse what changed. A source that cannot be parsed keeps its old facts and is no longer fresh."""
    return _result(index.refresh(project, force=request.force, expected_revision=request.expected_revision))


def show(project: Project, request: ShowRequest) -> ShowResult:
    """Return one source and what it names. Raise NotFound."""
    with project.journal.read() as reader:
        rows = live_sources(reader.database)
        row = source_by_id(reader.database, request.source) or next(
            (row for row in rows if row.locator == request.source), None
        )
        if row is None:
            raise NotFound(
                "there is no such source",
                expected="the id or the path of a source of this project",
                next_step="run awr source list to see them",
            )
        return ShowResult(
            project_revision=reader.project_revision,
            source=_view(row),
            entities=tuple(entities_of_source(reader.database, row.id)),
        )


def _result(report: RefreshReport) -> RefreshResult:
    return RefreshResult(**{name: getattr(report, name) for name in report.__struct_fields__})


def _view(row: SourceRow) -> SourceView:
    return SourceView(
        id=row.id,
        domain=row.domain,
        role=row.role,
        locator=row.locator,
        adapter=row.adapter,
        fingerprint=row.fingerprint,
        source_revision=row.source_revision,
        freshness=row.freshness,
        warnings=row.warnings,
    )
