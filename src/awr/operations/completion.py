"""Completing work: every criterion mapped to evidence, every report read again, and only then the source written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from awr.domain.evidence import (
    COMPLETION_LIMIT,
    REPORT_LIMIT,
    CompletionInput,
    CriterionEvidence,
    Evidence,
    Level,
    Report,
    covering,
    lowest_level,
    rank,
    references_of,
    report_criteria,
    require_agreement,
    require_bearing,
    require_mapping,
    validate_completion,
    validate_report,
)
from awr.domain.secrets import refuse_secrets
from awr.domain.text import bounded_text
from awr.domain.transition import TRANSITIONS, validate_inputs
from awr.domain.work import WorkItem
from awr.errors import (
    AwrError,
    DependencyBlocked,
    EvidenceMissing,
    InvalidInput,
    NotFound,
    RuleViolation,
    SourceStale,
)
from awr.journal.evidence import evidence_by_key
from awr.journal.journal import Reader
from awr.journal.sources import EntityRow, SourceRow, source_by_id
from awr.operations.fields import Branch, ExpectedRevision, WorkKey, described, require_main, work_entity
from awr.operations.mutation import Change, ProposalReport, apply_change
from awr.operations.requests import decode_request
from awr.operations.transition import Grounds, SessionOption, change_of, entry_edit, grounds
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.files import Location, SourceBytes, read_location, resolve_location
from awr.sources.manifest import read_manifest
from awr.sources.writeback import compare, location_of

__all__ = ["CompleteRequest", "PrepareRequest", "PrepareResult", "complete", "prepare"]


class CompleteRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    reason: Annotated[str, described("Why it is done, in a sentence or a few.")]
    expected_revision: ExpectedRevision
    session: SessionOption = None
    input: Annotated[
        str | None, described("A JSON file that maps every criterion to evidence; its path counts from the project.")
    ] = None
    completion: Annotated[CompletionInput | None, described("The same as JSON, instead of a file.")] = None


class PrepareRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    report: Annotated[str, described("The report file; its path counts from the project.")]
    evidence_key: Annotated[str, described("The key to record it under.")]
    source_sha: Annotated[str, described("The commit of the source code that was verified.")]
    level: Annotated[Level, described("How far it goes, in your own judgement.")]
    branch: Branch = None


class EvidenceDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What `awr evidence add` would be given."""

    external_key: str
    work: str
    evidence_type: str
    level: Level
    summary: str
    locator: str
    sha256: str
    source_sha: str
    command: str
    scope: tuple[str, ...]
    verified_at: int


class PrepareResult(msgspec.Struct, frozen=True, kw_only=True):
    """A validated report as evidence and as a completion. Nothing is written, run or claimed by it.

    `uncovered` has the criteria that this report says nothing of; the completion still needs them.
    """

    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[True] = True
    version: Literal[1] = 1
    stage: Literal["report_validated"] = "report_validated"
    report_sha256: str
    evidence: EvidenceDraft
    completion: CompletionInput
    uncovered: tuple[str, ...]
    verification_executed: Literal[False] = False
    completion_claimed: Literal[False] = False
    level_basis: Literal["caller_assertion"] = "caller_assertion"


def complete(project: Project, request: CompleteRequest) -> ProposalReport:
    """Complete work: its evidence and level go into the source and its claims are released.

    The order is revision, dependencies, acceptance, evidence and report bytes, blocker, write, event, claim release.
    Raise EvidenceMissing when the criteria are not borne out, and what the other transitions raise.
    """
    transition = TRANSITIONS["complete"]
    validate_inputs(transition, reason=request.reason, texts={})
    completion = _completion(project, request)
    validate_completion(completion)
    refuse_secrets({"reason": request.reason, **msgspec.to_builtins(completion)}, what="the completion")
    roots = read_manifest(project.manifest_path).authorized_roots

    def check(reader: Reader) -> Change:
        found = grounds(reader, transition, work_key=request.work, session=request.session)
        require_mapping(completion, found.item.acceptance)
        source = source_by_id(reader.database, found.work.source_id)
        assert source is not None, "an entity names a source of the journal"
        read = _report_reader(project, roots, source)
        evidence = _borne_out(reader, completion, found, read=read)
        _refuse_blocker(found.item)
        more = {
            "completion": msgspec.to_builtins(completion),
            "add_evidence": list(dict.fromkeys(one.locator for one in evidence)),
            "evidence_level": lowest_level(tuple(one.level for one in evidence)),
        }
        return change_of(reader, transition, found, reason=request.reason, texts={}, more=more)

    return apply_change(project, expected_revision=request.expected_revision, check=check, edit=entry_edit)


def prepare(project: Project, request: PrepareRequest) -> PrepareResult:
    """Validate a report and return the evidence and the completion it would make; write nothing.

    Raise NotFound, InvalidInput, RuleViolation, SourceStale when the ledger has changed since it was indexed, or
    EvidenceMissing for a report that is missing, of other work or with a check that did not pass.
    """
    if rank(request.level) < rank("locally_verified"):
        raise InvalidInput(
            "a report for a completion is verified at least locally",
            got=request.level,
            expected="locally_verified or higher",
            next_step="leave the level out, or name a higher one",
        )
    require_main(request.branch)
    bounded_text("evidence key", request.evidence_key, limit=4096)
    manifest = read_manifest(project.manifest_path)
    with project.journal.read() as reader:
        work = work_entity(reader.database, request.work)
        item, source = _fresh_item(project, reader, work)
        found = _report_reader(project, manifest.authorized_roots, source)(request.report)
        report = _parsed(found)
        validate_report(report, now=reader.now)
        revision = reader.project_revision
    same_work = report.work_item == request.work
    if not same_work or report.source_sha.lower() != request.source_sha.lower():
        raise EvidenceMissing(
            "the report is about other work or another state of the source",
            got="another source_sha" if same_work else "another work item",
            expected="a report of this work item and of the stated source_sha",
            next_step="name the report that belongs to both, or verify and report anew",
        )
    return _prepared(request, item, found, report, revision=revision)


def _prepared(
    request: PrepareRequest, item: WorkItem, found: SourceBytes, report: Report, *, revision: int
) -> PrepareResult:
    sha256 = found.fingerprint.removeprefix("sha256:")
    key = request.evidence_key
    covered = report_criteria(report)
    draft = EvidenceDraft(
        external_key=key,
        work=request.work,
        evidence_type="verification_report",
        level=request.level,
        summary="Passed: " + ", ".join(check.name for check in report.checks),
        locator=request.report,
        sha256=sha256,
        source_sha=report.source_sha,
        command=report.command,
        scope=report.scope,
        verified_at=report.verified_at,
    )
    completion = CompletionInput(
        version=1,
        source_sha=report.source_sha,
        minimum_level=request.level,
        acceptance=tuple(
            CriterionEvidence(criterion=one, evidence=(key,)) for one in item.acceptance if one in covered
        ),
        required_evidence=() if item.acceptance else (key,),
    )
    refuse_secrets(msgspec.to_builtins([draft, completion]), what="the report")
    return PrepareResult(
        project_revision=revision,
        report_sha256=sha256,
        evidence=draft,
        completion=completion,
        uncovered=tuple(one for one in item.acceptance if one not in covered),
    )


def _completion(project: Project, request: CompleteRequest) -> CompletionInput:
    if request.input is not None and request.completion is not None:
        raise InvalidInput(
            "a completion is given as a file or as JSON",
            got="both",
            expected="one of them",
            next_step="leave one of them out",
        )
    if request.completion is not None:
        return request.completion
    if request.input is None:
        raise EvidenceMissing(
            "work is completed with evidence for each of its criteria",
            got="no completion",
            expected="a file given with --input, or the same as JSON",
            next_step="run awr work prepare-completion to see what stands in it",
        )
    path = project.root / request.input
    try:
        found = read_location(Location(path.parent, (path.name,), "the completion input"), limit=COMPLETION_LIMIT)
    except AwrError as error:
        kind = NotFound if error.code == "SourceUnavailable" else InvalidInput
        raise kind(
            "the completion input cannot be read",
            got=str(error.details.get("got", "something else")),
            expected=f"a JSON file of at most {COMPLETION_LIMIT} bytes",
            next_step="check the path given with --input",
        ) from None
    return decode_request(found.data, CompletionInput, what="the completion input")


def _borne_out(
    reader: Reader, completion: CompletionInput, found: Grounds, *, read: Callable[[str], SourceBytes]
) -> list[Evidence]:
    """Return the evidence of a completion in its order, after each report was read and compared."""
    records: list[Evidence] = []
    reports: dict[str, Report] = {}
    for key in references_of(completion):
        evidence = evidence_by_key(reader.database, key)
        if evidence is None:
            raise EvidenceMissing(
                "the completion names evidence that was never recorded",
                got="an unknown evidence key",
                expected="keys of recorded evidence of this work item",
                next_step="record the report with awr evidence add, then complete",
            )
        require_bearing(evidence, completion, work_item_id=found.work.id)
        data = read(evidence.locator)
        if data.fingerprint != f"sha256:{evidence.sha256}":
            raise EvidenceMissing(
                "a report is not what it was when its evidence was recorded",
                got="other bytes",
                expected="the report as it was recorded",
                next_step="record the report as it is now under a new key, and map that",
            )
        reports[key] = _parsed(data)
        validate_report(reports[key], now=reader.now)
        require_agreement(reports[key], evidence, work_item_key=found.item.external_key)
        records.append(evidence)
    uncovered = sum(not covering(reports, entry) for entry in completion.acceptance)
    if uncovered:
        raise EvidenceMissing(
            "a report does not cover the criterion that it is mapped to",
            got=f"{uncovered} of {len(completion.acceptance)} criteria not covered",
            expected="each mapped report with a check that names the criterion, word for word",
            next_step="map the report that covers it, or verify it and record a new report",
        )
    return records


def _report_reader(project: Project, roots: tuple[str, ...], changing: SourceRow) -> Callable[[str], SourceBytes]:
    """Return how to read a report: local, of bounded size, and nothing that AWR itself is about to write."""
    taken = location_of(project, changing)

    def read(locator: str) -> SourceBytes:
        location = resolve_location(locator, root=project.root, authorized_roots=roots)
        own = location.base == project.root and location.parts[0] == ".awr" and location.parts[1:2] != ("artifacts",)
        if own or location.path == taken.path:
            raise RuleViolation(
                "a report must not be a file that changes by the completion",
                got="a file of AWR's own" if own else "the source that is about to be written",
                expected="a file of the project, or an artifact",
                next_step="keep reports in a folder of their own",
            )
        try:
            return read_location(location, limit=REPORT_LIMIT)
        except AwrError as error:
            if isinstance(error, RuleViolation):
                raise
            raise EvidenceMissing(
                "a report cannot be read",
                got=str(error.details.get("got", "something else")),
                expected=f"a regular file of at most {REPORT_LIMIT} bytes",
                next_step="put the report where its evidence says, unchanged",
            ) from None

    return read


def _parsed(found: SourceBytes) -> Report:
    return decode_request(found.data, Report, what="the report")


def _fresh_item(project: Project, reader: Reader, work: EntityRow) -> tuple[WorkItem, SourceRow]:
    source = source_by_id(reader.database, work.source_id)
    item = Contents(reader).work_item(work.external_key)
    assert source is not None, "an entity names a source of the journal"
    assert item is not None, "an entity that is not retired has content"
    state = compare(location_of(project, source), before=source.fingerprint or "", after=None)
    if source.freshness != "fresh" or state != "equal_to_before":
        raise SourceStale(
            "the ledger has changed since it was indexed",
            expected="the criteria as they are now",
            next_step="run awr source reindex, then repeat this",
        )
    return item, source


def _refuse_blocker(item: WorkItem) -> None:
    if item.blocker is not None and item.blocker.strip():
        raise DependencyBlocked(
            "the ledger names a blocker of this work",
            got="active_blocker",
            expected="work without a blocker",
            next_step="take the blocker out of the ledger, or block and unblock the work",
        )
