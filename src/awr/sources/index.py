"""Bringing the project up to date with its own files.

The files are read and parsed first, outside any transaction; what changed becomes one journal commit. A source that
cannot be parsed keeps its old facts and is plainly no longer fresh. Nothing changed costs no revision.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec

from awr.chain import digest, journal_bytes
from awr.domain.work import Freshness
from awr.errors import AwrError, RevisionConflict, SourceConflict, SourceStale
from awr.journal.journal import Writer
from awr.journal.sources import SourceRow, entities_of_source, live_sources, source_at
from awr.project import Project
from awr.sources.contents import Change, keys_of, planned_changes, store_changes
from awr.sources.files import fingerprint, read_source
from awr.sources.ledger import Ledger, parse_ledger
from awr.sources.manifest import LedgerOptions, Manifest, SourceMapping, read_manifest

__all__ = [
    "RefreshReport",
    "SourceIssue",
    "SourceOutcome",
    "parse_mapping",
    "refresh",
    "refreshed_write",
    "require_fresh",
    "require_up_to_date",
    "scan",
]

Action = Literal["indexed", "unchanged", "pending", "failed", "retired", "unavailable"]


class SourceOutcome(msgspec.Struct, frozen=True):
    """What happened to one source."""

    source_id: str | None
    locator: str
    action: Action
    source_revision: int
    freshness: Freshness
    warnings: int


class SourceIssue(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a source could not be read or parsed. `location` has line and column where the file has them."""

    mapping: str
    locator: str
    code: str
    message: str
    location: dict[str, object] | None = None
    next_step: str | None = None


class RefreshReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a scan or a re-index found and did. `ok` is false as long as a source is not fresh."""

    ok: bool
    project_id: str
    project_revision: int
    change_window: dict[str, int]
    projection_complete: bool
    indexed: int
    unchanged: int
    retired: int
    pending: int
    sources: tuple[SourceOutcome, ...]
    issues: tuple[SourceIssue, ...]


class _Seen(msgspec.Struct, frozen=True):
    """One mapping as found on disk now. Exactly one of `fingerprint` and `error` is there."""

    mapping: SourceMapping
    config_sha256: str
    data: bytes | None = None
    fingerprint: str | None = None
    error: AwrError | None = None


class _Parsed(msgspec.Struct, frozen=True):
    """One mapping that had to be parsed: its content, or why there is none."""

    seen: _Seen
    ledger: Ledger | None = None
    error: AwrError | None = None


def refresh(project: Project, *, force: bool = False, expected_revision: int | None = None) -> RefreshReport:
    """Parse every source that changed and record the outcome as one commit, or none at all.

    Raise RevisionConflict when the project is not at `expected_revision`; None states nothing.
    """
    seen = _look(project)
    with project.journal.read() as reader:
        if expected_revision is not None and expected_revision != reader.project_revision:
            raise RevisionConflict(expected=expected_revision, actual=reader.project_revision)
        rows = live_sources(reader.database)
        start = reader.project_revision
        project_id = reader.project_id
    wanted = [item for item in seen if force or not _is_current(item, rows)]
    if not wanted and not _gone(rows, seen):
        return _report(project_id, start, start, rows, actions={}, issues=())
    parsed = [_parse(project, item) for item in wanted]
    with project.journal.write(expected_revision=expected_revision) as writer:
        actions, issues = _record(writer, parsed, seen)
        after = live_sources(writer.database)
        retired = [row for row in rows if row.id not in {live.id for live in after}]
        return _report(
            writer.project_id, start, writer.project_revision, [*after, *retired], actions=actions, issues=issues
        )


def scan(project: Project) -> RefreshReport:
    """Compare the files with what was indexed. A source that changed becomes stale; nothing is parsed."""
    seen = _look(project)
    with project.journal.write() as writer:
        start = writer.project_revision
        actions: dict[str, Action] = {}
        issues: list[SourceIssue] = []
        unregistered: list[SourceOutcome] = []
        for item in seen:
            row = source_at(writer.database, domain=item.mapping.domain, locator=item.mapping.location)
            if row is None or row.retired:
                unregistered.append(SourceOutcome(None, item.mapping.location, "pending", 0, "stale", 0))
                continue
            if item.error is not None:
                issues.append(_issue(item, item.error))
                actions[row.id] = "unavailable"
                _set_freshness(writer, row, "unavailable")
            elif (item.fingerprint, item.config_sha256) != (row.fingerprint, row.config_sha256):
                actions[row.id] = "pending"
                _set_freshness(writer, row, "stale")
            elif row.freshness != "fresh":
                # Equal bytes never promote a source that has not been indexed since.
                actions[row.id] = "pending"
        rows = live_sources(writer.database)
        report = _report(writer.project_id, start, writer.project_revision, rows, actions=actions, issues=issues)
    return msgspec.structs.replace(
        report,
        ok=report.ok and not unregistered,
        projection_complete=report.projection_complete and not unregistered,
        pending=report.pending + len(unregistered),
        sources=(*report.sources, *unregistered),
    )


def require_fresh(project: Project) -> None:
    """Refresh the sources. Raise SourceStale when one cannot be brought up to date."""
    report = refresh(project)
    if not report.ok:
        first = next(iter(report.issues), None)
        raise SourceStale(
            f"{first.locator}: {first.message}" if first else "a source is not fresh",
            expected="every source readable and valid",
            next_step="correct it, or ask again with --cached for what was last indexed",
            location=first.location if first else None,
        )


@contextmanager
def refreshed_write(project: Project, *, expected_revision: int | None) -> Iterator[Writer]:
    """Open a write that rests on fresh sources.

    The revision is compared before and after the refresh, so that a source edit which the refresh finds makes the
    write fail with RevisionConflict instead of riding on facts its caller has not seen. Raise SourceStale when a
    source cannot be brought up to date.
    """
    with project.journal.read() as reader:
        start = reader.project_revision
    if expected_revision is not None and expected_revision != start:
        raise RevisionConflict(expected=expected_revision, actual=start)
    require_up_to_date(refresh(project))
    with project.journal.write(expected_revision=start if expected_revision is None else expected_revision) as writer:
        yield writer


def require_up_to_date(report: RefreshReport) -> None:
    """Raise SourceStale, naming what is wrong, unless every source is as it was indexed."""
    if not report.ok:
        raise SourceStale(
            "a source of this project is not up to date",
            got=", ".join(f"{issue.locator}: {issue.message}" for issue in report.issues) or "a stale source",
            expected="every source readable and valid",
            next_step="run awr source reindex, correct what it names, then repeat this",
        )


def parse_mapping(mapping: SourceMapping, data: bytes) -> Ledger:
    """Parse the bytes of one mapping. Raise InvalidInput, SourceConflict, RuleViolation or Unsupported."""
    options = mapping.options
    if isinstance(options, LedgerOptions):
        return parse_ledger(
            data, locator=mapping.location, field_map=options.field_map, status_map=options.status_map
        )
    # Imported here because most commands find every source unchanged and parse none.
    from awr.sources.markdown import parse_headings

    return parse_headings(data, locator=mapping.location, domain=mapping.domain, options=options)


def _look(project: Project) -> list[_Seen]:
    manifest = read_manifest(project.manifest_path)
    return [_look_at(project, manifest, mapping) for mapping in manifest.sources]


def _look_at(project: Project, manifest: Manifest, mapping: SourceMapping) -> _Seen:
    config = digest(journal_bytes({"role": mapping.role, "adapter": mapping.adapter, "options": mapping.options}))
    try:
        data = read_source(project.root, mapping, authorized_roots=manifest.authorized_roots)
    except AwrError as error:
        return _Seen(mapping=mapping, config_sha256=config, error=error)
    return _Seen(mapping=mapping, config_sha256=config, data=data, fingerprint=fingerprint(data))


def _is_current(item: _Seen, rows: list[SourceRow]) -> bool:
    row = _row_of(item, rows)
    if row is None or item.error is not None:
        return False
    known = (row.fingerprint, row.config_sha256, row.freshness)
    return known == (item.fingerprint, item.config_sha256, "fresh")


def _row_of(item: _Seen, rows: list[SourceRow]) -> SourceRow | None:
    place = (item.mapping.domain, item.mapping.location)
    return next((row for row in rows if (row.domain, row.locator) == place), None)


def _gone(rows: list[SourceRow], seen: list[_Seen]) -> list[SourceRow]:
    places = {(item.mapping.domain, item.mapping.location) for item in seen}
    return [row for row in rows if (row.domain, row.locator) not in places]


def _parse(project: Project, item: _Seen) -> _Parsed:
    if item.error is not None or item.data is None:
        return _Parsed(seen=item, error=item.error)
    try:
        ledger = parse_mapping(item.mapping, item.data)
        again = _look_at(project, read_manifest(project.manifest_path), item.mapping)
        if again.fingerprint != item.fingerprint:
            raise SourceConflict(
                "the file changed while it was parsed",
                expected="a file that stands still for a moment",
                next_step="run awr source reindex again",
            )
    except AwrError as error:
        return _Parsed(seen=item, error=error)
    return _Parsed(seen=item, ledger=ledger)


def _record(
    writer: Writer, parsed: list[_Parsed], seen: list[_Seen]
) -> tuple[dict[str, Action], tuple[SourceIssue, ...]]:
    actions: dict[str, Action] = {}
    issues: list[SourceIssue] = []
    for row in _gone(live_sources(writer.database), seen):
        _retire(writer, row)
        actions[row.id] = "retired"
    leaving = _leaving(writer, parsed)
    for item in parsed:
        row = _registered(writer, item.seen)
        error = item.error
        if item.ledger is not None:
            try:
                _project(writer, row, item, leaving=leaving)
                actions[row.id] = "indexed"
            except SourceConflict as conflict:
                error = conflict
        if error is not None:
            unavailable = item.seen.error is not None
            issues.append(_issue(item.seen, error))
            actions[row.id] = "unavailable" if unavailable else "failed"
            _set_freshness(writer, row, "unavailable" if unavailable else "stale")
    return actions, tuple(issues)


def _registered(writer: Writer, item: _Seen) -> SourceRow:
    """Return the mapping's source, recording it first if it is new, back again, or configured anew."""
    mapping = item.mapping
    row = source_at(writer.database, domain=mapping.domain, locator=mapping.location)
    if row is None or row.retired:
        fresh = SourceRow(
            id=row.id if row else writer.new_id(),
            domain=mapping.domain,
            role=mapping.role,
            locator=mapping.location,
            adapter=mapping.adapter,
            config_sha256=item.config_sha256,
            fingerprint=None,
            source_revision=row.source_revision if row else 0,
            freshness="stale",
            warnings=0,
            retired=0,
        )
        _append(writer, "source.registered", before=row, after=fresh, summary="Source registered")
        return fresh
    if row.config_sha256 != item.config_sha256:
        changed = msgspec.structs.replace(
            row, role=mapping.role, adapter=mapping.adapter, config_sha256=item.config_sha256, freshness="stale"
        )
        _append(writer, "source.configured", before=row, after=changed, summary="Source configured")
        return changed
    return row


def _leaving(writer: Writer, parsed: list[_Parsed]) -> frozenset[tuple[str, str]]:
    """Return what leaves a source in this very refresh, so that another source may take it over."""
    found: set[tuple[str, str]] = set()
    for item in parsed:
        mapping = item.seen.mapping
        row = source_at(writer.database, domain=mapping.domain, locator=mapping.location)
        if row is not None and item.ledger is not None:
            known = {(entity.kind, entity.external_key) for entity in entities_of_source(writer.database, row.id)}
            found |= known - keys_of(item.ledger)
    return frozenset(found)


def _project(writer: Writer, row: SourceRow, item: _Parsed, *, leaving: frozenset[tuple[str, str]]) -> None:
    assert item.ledger is not None
    changes, places = planned_changes(writer, row.id, item.ledger, leaving=leaving)
    after = msgspec.structs.replace(
        row,
        fingerprint=item.seen.fingerprint,
        source_revision=row.source_revision + 1,
        freshness="fresh",
        warnings=len(item.ledger.warnings),
    )
    counts = ", ".join(
        f"{sum(change.action == action for change in changes)} {action}" for action in ("added", "changed", "retired")
    )
    _append(writer, "source.projected", before=row, after=after, changes=changes, summary=f"Source parsed: {counts}")
    store_changes(writer.database, row.id, changes, places)


def _retire(writer: Writer, row: SourceRow) -> None:
    changes = [
        Change(
            kind=entity.kind,
            id=entity.id,
            external_key=entity.external_key,
            action="retired",
            before_revision=entity.revision,
            after_revision=entity.revision + 1,
        )
        for entity in entities_of_source(writer.database, row.id)
    ]
    after = msgspec.structs.replace(row, retired=1, freshness="stale")
    _append(writer, "source.retired", before=row, after=after, changes=changes, summary="Source retired")
    store_changes(writer.database, row.id, changes, {})


def _set_freshness(writer: Writer, row: SourceRow, freshness: Freshness) -> None:
    if row.freshness != freshness:
        after = msgspec.structs.replace(row, freshness=freshness)
        _append(writer, "source.freshness_changed", before=row, after=after, summary=f"Source is {freshness}")


def _append(
    writer: Writer,
    event_type: str,
    *,
    before: SourceRow | None,
    after: SourceRow,
    summary: str,
    changes: list[Change] | None = None,
) -> None:
    writer.append(
        event_type,
        {
            "source_id": after.id,
            "change_schema": 1,
            "before": before,
            "after": after,
            "changes": changes or [],
            "freshness": after.freshness,
            "fingerprint": after.fingerprint,
            "source_revision": after.source_revision,
            "warnings": after.warnings,
        },
        summary=summary,
    )


def _issue(item: _Seen, error: AwrError) -> SourceIssue:
    location = error.details.get("location")
    return SourceIssue(
        mapping=f"{item.mapping.domain}:{item.mapping.location}",
        locator=item.mapping.location,
        code=error.code,
        message=error.what,
        location=location if isinstance(location, dict) else None,
        next_step=str(error.details["next_step"]) if "next_step" in error.details else None,
    )


def _report(
    project_id: str,
    start: int,
    end: int,
    rows: list[SourceRow],
    *,
    actions: dict[str, Action],
    issues: list[SourceIssue] | tuple[SourceIssue, ...],
) -> RefreshReport:
    outcomes = tuple(
        SourceOutcome(
            source_id=row.id,
            locator=row.locator,
            action=actions.get(row.id, "unchanged"),
            source_revision=row.source_revision,
            freshness=row.freshness,
            warnings=row.warnings,
        )
        for row in rows
    )
    done = [outcome.action for outcome in outcomes]
    complete = all(outcome.freshness == "fresh" for outcome in outcomes if outcome.action != "retired")
    return RefreshReport(
        ok=complete,
        project_id=project_id,
        project_revision=end,
        change_window={"after_revision": start, "through_revision": end},
        projection_complete=complete,
        indexed=done.count("indexed"),
        unchanged=done.count("unchanged"),
        retired=done.count("retired"),
        pending=done.count("pending"),
        sources=outcomes,
        issues=tuple(issues),
    )
