"""Recording evidence and looking at it. A record states how something was verified; nothing is run or read here."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.domain.evidence import Currency, Evidence, Level, currency, validate_evidence
from awr.domain.secrets import refuse_secrets
from awr.domain.work import WorkItem
from awr.errors import InvalidInput, NotFound, SourceConflict
from awr.journal.evidence import evidence_by_id, evidence_by_key, evidence_of_work
from awr.journal.journal import Reader, Writer
from awr.operations.fields import Branch, ExpectedRevision, described, require_main, work_entity
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.index import refreshed_write

__all__ = ["AddRequest", "AddResult", "EvidenceView", "ShowRequest", "ShowResult", "SourceReference", "add", "show"]

MAX_DRAFT_BYTES = 1024 * 1024


class AddRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    external_key: Annotated[str, described("The evidence's own key, never used before.", argument=True)]
    evidence_type: Annotated[str, described("What kind of evidence, for example test_report.")]
    level: Annotated[Level, described("How far it goes.")]
    summary: Annotated[str, described("What it shows, in a sentence or a few.")]
    locator: Annotated[str, described("Where it is: for a completion, a report file in the project.")]
    scope: Annotated[
        tuple[str, ...], msgspec.Meta(min_length=1, description="A part of the project that it speaks of.")
    ]
    expected_revision: ExpectedRevision
    work: Annotated[str | None, described("The work item it is about.")] = None
    sha256: Annotated[str | None, described("The SHA-256 of the report file.")] = None
    source_sha: Annotated[str | None, described("The commit of the source code that was verified.")] = None
    command: Annotated[str | None, described("The command that verified it; it is not run again.")] = None
    branch: Branch = None
    verified_at: (
        Annotated[int, msgspec.Meta(ge=0, le=2**53, description="When it was verified, in Unix milliseconds.")] | None
    ) = None


class AddResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[False] = False
    evidence: Evidence
    event_id: str
    validation_basis: Literal["caller_supplied_bindings"] = "caller_supplied_bindings"


class ShowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    evidence: Annotated[str | None, described("The evidence's key or id.", argument=True)] = None
    work: Annotated[str | None, described("Show all evidence of this work item instead.")] = None
    source_sha: Annotated[str | None, described("Say whether it speaks of this commit of the source code.")] = None


class EvidenceView(msgspec.Struct, frozen=True, kw_only=True):
    """One record, and whether it speaks of the source state that was asked about."""

    evidence: Evidence
    currency: Currency


class SourceReference(msgspec.Struct, frozen=True, kw_only=True):
    """A report that a source names. Nothing is known about its level, and nothing in it was verified."""

    external_key: str
    evidence_type: Literal["source_reference"] = "source_reference"
    level: Literal["unknown"] = "unknown"
    locator: str
    summary: str | None


class ShowResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["last_recorded_source_state"] = "last_recorded_source_state"
    read_only: Literal[True] = True
    evidence: tuple[EvidenceView, ...]
    source_references: tuple[SourceReference, ...]


def add(project: Project, request: AddRequest) -> AddResult:
    """Record evidence under a new key.

    Raise InvalidInput, RuleViolation, RevisionConflict, NotFound, SourceConflict for a key that is taken, or
    EvidenceMissing when a level from locally_verified on lacks scope, hashes, command or time.
    """
    require_main(request.branch)
    size = len(msgspec.json.encode(request))
    if size > MAX_DRAFT_BYTES:
        raise InvalidInput(
            "the evidence is too large",
            got=f"{size} bytes",
            expected=f"at most {MAX_DRAFT_BYTES} bytes",
            next_step="keep the bulk in the report and name it",
        )
    refuse_secrets(msgspec.to_builtins(request), what="the evidence")
    with refreshed_write(project, expected_revision=request.expected_revision) as writer:
        work_item_id = work_entity(writer.database, request.work).id if request.work else None
        evidence = _evidence(writer, request, work_item_id)
        validate_evidence(evidence, now=writer.now)
        if evidence_by_key(writer.database, request.external_key) is not None:
            raise SourceConflict(
                "evidence of this key exists already, and a record is never changed",
                expected="a key that was never used",
                next_step="run awr evidence show to see it, or record the new report under a key of its own",
            )
        event = writer.append(
            "evidence.recorded",
            {
                "evidence_id": evidence.id,
                "external_key": evidence.external_key,
                "level": evidence.level,
                "evidence": evidence,
            },
            summary=f"Evidence recorded: {evidence.level}",
            work_item_id=work_item_id,
        )
        return AddResult(project_revision=writer.project_revision, evidence=evidence, event_id=event.id)


def show(project: Project, request: ShowRequest) -> ShowResult:
    """Return one record, or all of a work item with the reports that its source names.

    Raise NotFound or InvalidInput.
    """
    if (request.evidence is None) == (request.work is None):
        raise InvalidInput(
            "evidence is named by its key, or by its work item",
            got="both" if request.evidence else "neither",
            expected="one of them",
            next_step="give the evidence's key, or --work",
        )
    with project.journal.read() as reader:
        if request.work is None:
            one = _named(reader, request.evidence or "")
            return ShowResult(
                project_revision=reader.project_revision,
                evidence=(EvidenceView(evidence=one, currency=currency(one, source_sha=request.source_sha)),),
                source_references=(),
            )
        work = work_entity(reader.database, request.work)
        item = Contents(reader).work_item(request.work)
        return ShowResult(
            project_revision=reader.project_revision,
            evidence=evidence_views(reader, work.id, source_sha=request.source_sha),
            source_references=source_references(item) if item else (),
        )


def evidence_views(reader: Reader, work_item_id: str, *, source_sha: str | None) -> tuple[EvidenceView, ...]:
    """Return the recorded evidence of a work item, judged by a commit."""
    found = evidence_of_work(reader.database, work_item_id)
    return tuple(EvidenceView(evidence=one, currency=currency(one, source_sha=source_sha)) for one in found)


def source_references(item: WorkItem) -> tuple[SourceReference, ...]:
    """Return the reports that a work item's own entry names."""
    return tuple(
        SourceReference(
            external_key=f"{item.external_key}/evidence/{one.locator}", locator=one.locator, summary=one.summary
        )
        for one in item.evidence
    )


def _evidence(writer: Writer, request: AddRequest, work_item_id: str | None) -> Evidence:
    return Evidence(
        id=writer.new_id(),
        project_id=writer.project_id,
        external_key=request.external_key,
        work_item_id=work_item_id,
        evidence_type=request.evidence_type,
        level=request.level,
        summary=request.summary,
        locator=request.locator,
        sha256=request.sha256.lower() if request.sha256 else None,
        source_sha=request.source_sha.lower() if request.source_sha else None,
        command=request.command,
        scope=request.scope,
        branch_id=None,
        verified_at=request.verified_at,
        created_at=writer.now,
        revision=writer.project_revision + 1,
    )


def _named(reader: Reader, name: str) -> Evidence:
    found = evidence_by_key(reader.database, name) or evidence_by_id(reader.database, name)
    if found is None:
        raise NotFound(
            "there is no such evidence in this project",
            expected="the key or the id of recorded evidence",
            next_step="run awr evidence show --work to see what a work item has",
        )
    return found
