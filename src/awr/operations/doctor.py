"""Looking a project over without changing anything: what is wrong or unfinished, and the command that repairs it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import msgspec

from awr.errors import AwrError, Storage
from awr.journal import verification
from awr.journal.health import schema_issues
from awr.journal.journal import Reader
from awr.journal.pending import pending_operations
from awr.journal.sources import SourceRow, live_sources
from awr.operations.fields import described
from awr.project import Project
from awr.sources.files import fingerprint, read_source
from awr.sources.manifest import read_manifest

__all__ = ["DoctorRequest", "DoctorResult", "Finding", "doctor"]

Severity = Literal["fault", "notice"]

_SHARED_WRITE = stat.S_IWGRP | stat.S_IWOTH


class DoctorRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    database_only: Annotated[bool, described("Look at the database alone, not at the files.")] = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong or unfinished. `repair` is the command for it, or null where a person must decide.

    A fault needs care at once; a notice may be as it should be. `reference` names the record, or the file within
    the project.
    """

    code: str
    severity: Severity
    message: str
    reference: str | None = None
    repair: str | None = None
    next_step: str | None = None


class DoctorResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `ok` is false while there is a fault; the revision is null if the database cannot be read."""

    ok: bool
    read_only: Literal[True] = True
    source_refresh_performed: Literal[False] = False
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    project_revision: int | None
    schema_issues: tuple[str, ...]
    findings: tuple[Finding, ...]

    def problem(self) -> Storage | None:
        """Return the error that a fault means, or None."""
        faults = [finding for finding in self.findings if finding.severity == "fault"]
        if not faults:
            return None
        return Storage(
            f"the project has a fault: {faults[0].message}",
            got=f"{len(faults)} faults" if len(faults) > 1 else "1 fault",
            next_step=faults[0].repair or faults[0].next_step,
        )


def doctor(project: Project, request: DoctorRequest) -> DoctorResult:
    """Look the project over and change nothing. What cannot even be opened is a finding, not an exception."""
    revision: int | None = None
    issues: tuple[str, ...] = ()
    findings: list[Finding] = []
    rows: list[SourceRow] = []
    try:
        with project.journal.read() as reader:
            revision = reader.project_revision
            rows = live_sources(reader.database)
            issues = schema_issues(reader.database)
            findings += _journal(reader)
            findings += [
                Finding(
                    code="schema_changed",
                    severity="fault",
                    message=issue,
                    next_step="find out who changed the file, and restore the database from a backup",
                )
                for issue in issues
            ]
            findings += _unfinished(reader)
    except AwrError as error:
        findings.append(
            Finding(
                code="database_unusable",
                severity="fault",
                message=error.what,
                next_step=str(error.details.get("next_step", "restore the database from a backup")),
            )
        )
    findings += _permissions(project)
    if not request.database_only:
        findings += _sources(project, rows)
        findings += _left_behind(project)
    return DoctorResult(
        ok=not any(finding.severity == "fault" for finding in findings),
        project_revision=revision,
        schema_issues=issues,
        findings=tuple(findings),
    )


def _journal(reader: Reader) -> Iterator[Finding]:
    found = verification.verify(reader.database)
    if found.broken is not None:
        yield Finding(
            code="journal_broken",
            severity="fault",
            message=f"the journal is not as it was written: {found.broken.problem}",
            reference=found.broken.event_id,
            next_step="restore the database from a backup whose journal verifies",
        )
    for guard in found.missing_guards:
        yield Finding(
            code="guard_missing",
            severity="fault",
            message=f"the guard {guard} that keeps the journal append-only is missing or changed",
            next_step="find out who changed the file, and restore the database from a backup",
        )


def _unfinished(reader: Reader) -> Iterator[Finding]:
    for row in reader.database.rows(
        "SELECT id FROM claims WHERE status = 'active' AND expires_at <= ? ORDER BY expires_at, id", (reader.now,)
    ):
        yield Finding(
            code="claim_expired",
            severity="notice",
            message="a claim's time limit has passed, and nobody has recorded it",
            reference=row["id"],
            repair=_repair("expire-claim", row["id"], reader),
        )
    for row in reader.database.rows(
        "SELECT id FROM sessions WHERE status = 'active' AND resumed_to IS NOT NULL ORDER BY id"
    ):
        yield Finding(
            code="session_taken_over",
            severity="notice",
            message="a session is still active although another one has taken over from it",
            reference=row["id"],
            repair=_repair("interrupt-session", row["id"], reader),
        )
    for row in reader.database.rows(
        "SELECT s.id FROM sessions s JOIN entities e ON e.id = s.work_item_id "
        "WHERE s.status = 'active' AND e.retired ORDER BY s.id"
    ):
        yield Finding(
            code="session_work_retired",
            severity="notice",
            message="an active session is bound to work that no source names any more",
            reference=row["id"],
            repair=_repair("interrupt-session", row["id"], reader),
        )
    for one in pending_operations(reader):
        if one.kind == "checkpoint":
            yield Finding(
                code="checkpoint_unfinished",
                severity="notice",
                message="an attempt to save a checkpoint was begun and not finished",
                reference=one.id,
                repair=_repair("abandon-checkpoint", one.id, reader),
            )
        elif one.kind == "proposal":
            yield Finding(
                code="proposal_unfinished",
                severity="fault",
                message="a change of a source was begun and not finished",
                reference=one.id,
                repair=f"awr proposal recover {one.id} --expected-revision {reader.project_revision}",
            )
        elif one.kind == "execution":
            yield Finding(
                code="execution_uncertain",
                severity="notice",
                message="the outcome of an execution is unknown",
                reference=one.id,
                next_step="ask its host how it ended and record that with awr execution report",
            )


def _repair(kind: str, identifier: str, reader: Reader) -> str:
    return f"awr doctor repair {kind} {identifier} --expected-revision {reader.project_revision} --reason TEXT"


def _sources(project: Project, rows: list[SourceRow]) -> Iterator[Finding]:
    try:
        manifest = read_manifest(project.manifest_path)
    except AwrError as error:
        yield Finding(
            code="manifest_unusable",
            severity="fault",
            message=error.what,
            reference=".awr/project.toml",
            next_step=str(error.details.get("next_step", "correct the manifest")),
        )
        return
    known = {(row.domain, row.locator): row for row in rows}
    for mapping in manifest.sources:
        row = known.get((mapping.domain, mapping.location))
        try:
            now = fingerprint(read_source(project.root, mapping, authorized_roots=manifest.authorized_roots))
        except AwrError as error:
            yield Finding(
                code="source_unavailable",
                severity="notice",
                message=error.what,
                reference=mapping.location,
                next_step=str(error.details.get("next_step", "correct the file or the mapping")),
            )
            continue
        if row is None or row.fingerprint != now or row.freshness != "fresh":
            yield Finding(
                code="source_stale",
                severity="notice",
                message="a source is not indexed as it is now",
                reference=mapping.location,
                repair="awr source reindex",
            )


def _permissions(project: Project) -> Iterator[Finding]:
    for path in (project.folder, project.journal.path, project.manifest_path):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if mode & _SHARED_WRITE:
            name = str(path.relative_to(project.root))
            yield Finding(
                code="permissions_loose",
                severity="notice",
                message="other users of this machine may write to it",
                reference=name,
                repair=f"chmod go-w {quote(name)}",
            )


def _left_behind(project: Project) -> Iterator[Finding]:
    """Find files and folders that writers make before they rename them, and that a killed one left."""
    for path in sorted({*_temporary_files(project)}):
        name = str(path.relative_to(project.root))
        yield Finding(
            code="file_left_behind",
            severity="notice",
            message="a file that a writer makes for a moment is still there",
            reference=name,
            repair=f"rm -r -- {quote(name)}",
            next_step="make sure that no AWR command is running in this project first",
        )


def _temporary_files(project: Project) -> Iterator[Path]:
    own = {project.journal.path.name + end for end in ("", "-wal", "-shm", "-journal")}
    yield from (path for path in project.folder.glob(f"{project.journal.path.name}?*") if path.name not in own)
    yield from project.folder.glob(f".{project.manifest_path.name}.*")
    yield from project.folder.glob("restoring-*")
    try:
        mappings = read_manifest(project.manifest_path).sources
    except AwrError:
        return
    for mapping in mappings:
        if "://" not in mapping.location:
            path = project.root / mapping.location
            # The name of the source, a dot, and the id of the proposal that was being written.
            yield from path.parent.glob(f".{_literal(path.name)}.{'[0-9A-Z]' * 26}")


def _literal(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
