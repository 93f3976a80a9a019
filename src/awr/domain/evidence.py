"""What bears out that work is done: evidence, its levels, reports, and the mapping a completion must give.

A level, a command and a time are what a caller states. Nothing here runs a command; what is checked is that the
statements fit together, and that a report still has the bytes it was recorded with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from awr.domain.text import bounded_text
from awr.domain.transition import bounded_note
from awr.errors import EvidenceMissing, InvalidInput

__all__ = [
    "COMPLETION_LIMIT",
    "LEVELS",
    "REPORT_LIMIT",
    "CompletionInput",
    "CriterionEvidence",
    "Currency",
    "Evidence",
    "Level",
    "Report",
    "ReportCheck",
    "covering",
    "currency",
    "lowest_level",
    "rank",
    "references_of",
    "report_criteria",
    "require_agreement",
    "require_bearing",
    "require_mapping",
    "validate_completion",
    "validate_evidence",
    "validate_report",
]

Level = Literal[
    "designed", "implemented", "locally_verified", "real_environment_validated", "release_candidate", "released"
]
Currency = Literal["current", "historical", "unknown"]

#: By rank, lowest first. `unknown` has none and is never recorded.
LEVELS: tuple[Level, ...] = (
    "designed",
    "implemented",
    "locally_verified",
    "real_environment_validated",
    "release_candidate",
    "released",
)
REPORT_LIMIT = 1024 * 1024
COMPLETION_LIMIT = 64 * 1024
EVIDENCE_LIMIT = 1024 * 1024

_MAX_REFERENCES = 100
_MAX_REFERENCE_BYTES = 4096
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_SOURCE_SHA = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One record of evidence. It is never changed; `revision` is the project revision that recorded it."""

    id: str
    project_id: str
    external_key: str
    work_item_id: str | None
    evidence_type: str
    level: Level
    summary: str
    locator: str
    sha256: str | None
    source_sha: str | None
    command: str | None
    scope: tuple[str, ...]
    branch_id: str | None
    verified_at: int | None
    created_at: int
    revision: int


class CriterionEvidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One criterion, in its own words, with the keys of the evidence that bears it out."""

    criterion: str
    evidence: tuple[str, ...]


class CompletionInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a caller states to complete work: every criterion with its evidence, for one state of the source code."""

    version: int
    source_sha: str
    acceptance: tuple[CriterionEvidence, ...]
    minimum_level: str = "locally_verified"
    required_evidence: tuple[str, ...] = ()


class ReportCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was verified, and the criteria it covers. One of `details` and `result` says how it went."""

    name: str
    passed: bool
    criteria: tuple[str, ...]
    details: str | None = None
    result: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A report file. `verified_at` is in Unix milliseconds; fields beside these are the reporter's own."""

    version: int
    work_item: str
    source_sha: str
    command: str
    scope: tuple[str, ...]
    verified_at: int
    checks: tuple[ReportCheck, ...]


def rank(level: str) -> int:
    """Return a level's place, lowest first. Raise InvalidInput for another word."""
    if level in LEVELS:
        return LEVELS.index(level)
    raise InvalidInput(
        "this is no evidence level",
        got=f"a text of {len(level.encode('utf-8', 'surrogatepass'))} bytes",
        expected=", ".join(LEVELS),
        next_step="name one of these levels",
    )


def lowest_level(levels: tuple[Level, ...]) -> Level:
    """Return the lowest of one or more levels."""
    return min(levels, key=rank)


def validate_evidence(evidence: Evidence, *, now: int) -> None:
    """Check one record before it is written. Raise InvalidInput, or EvidenceMissing where its level asks for more."""
    bounded_text("external key", evidence.external_key, limit=_MAX_REFERENCE_BYTES)
    bounded_text("evidence type", evidence.evidence_type, limit=512)
    bounded_text("locator", evidence.locator, limit=_MAX_REFERENCE_BYTES)
    bounded_note("summary", evidence.summary, limit=EVIDENCE_LIMIT)
    if not evidence.scope:
        raise InvalidInput(
            "evidence names what it speaks of",
            got="no scope",
            expected="at least one scope entry",
            next_step="name the part of the project that was looked at",
        )
    for entry in evidence.scope:
        bounded_text("scope entry", entry, limit=_MAX_REFERENCE_BYTES)
    if evidence.command is not None:
        bounded_note("command", evidence.command, limit=EVIDENCE_LIMIT)
    _require_hex("sha256", evidence.sha256, _SHA256, expected="64 hexadecimal digits")
    _require_hex("source sha", evidence.source_sha, _SOURCE_SHA, expected="40 or 64 hexadecimal digits")
    if evidence.verified_at is not None and evidence.verified_at > now:
        raise _future()
    bindings = {
        "sha256": evidence.sha256,
        "source_sha": evidence.source_sha,
        "command": evidence.command,
        "verified_at": evidence.verified_at,
    }
    missing = [name for name, value in bindings.items() if value is None]
    if rank(evidence.level) >= rank("locally_verified") and missing:
        raise EvidenceMissing(
            f"evidence of level {evidence.level} states how it was verified",
            got="no " + ", no ".join(missing),
            expected="scope, " + ", ".join(bindings),
            next_step="give what is missing, or record it with the level implemented",
        )


def validate_completion(completion: CompletionInput) -> None:
    """Check what does not depend on the work. Raise InvalidInput, or EvidenceMissing for a criterion without any."""
    if completion.version != 1:
        raise InvalidInput(
            "this version of the completion input is not known",
            got=completion.version,
            expected=1,
            next_step="write version 1",
        )
    _require_hex("source_sha", completion.source_sha, _SOURCE_SHA, expected="40 or 64 hexadecimal digits")
    if rank(completion.minimum_level) < rank("locally_verified"):
        raise InvalidInput(
            "the minimum level of a completion is too low",
            got=completion.minimum_level,
            expected=", ".join(LEVELS[rank("locally_verified") :]),
            next_step="name one of these, or leave minimum_level out",
        )
    if any(not entry.evidence for entry in completion.acceptance):
        raise _unmapped("a criterion without evidence")
    references = references_of(completion)
    sizes = [len(each.encode("utf-8", "surrogatepass")) for each in references]
    if not 1 <= len(references) <= _MAX_REFERENCES or not all(0 < size <= _MAX_REFERENCE_BYTES for size in sizes):
        raise InvalidInput(
            "a completion names its evidence by key",
            got=f"{len(references)} keys of up to {max(sizes, default=0)} bytes",
            expected=f"1 to {_MAX_REFERENCES} different keys of 1 to {_MAX_REFERENCE_BYTES} bytes",
            next_step="record fewer, broader reports",
        )


def references_of(completion: CompletionInput) -> tuple[str, ...]:
    """Return every evidence key a completion names, each once, in order."""
    named = [key for entry in completion.acceptance for key in entry.evidence]
    return tuple(dict.fromkeys([*named, *completion.required_evidence]))


def require_mapping(completion: CompletionInput, criteria: tuple[str, ...]) -> None:
    """Raise EvidenceMissing unless every current criterion is mapped exactly once, and nothing else is."""
    stated = [entry.criterion for entry in completion.acceptance]
    missing = len(set(criteria) - set(stated))
    if missing:
        raise _unmapped(f"{missing} of {len(set(criteria))} criteria without evidence")
    if len(stated) != len(set(stated)) or len(stated) != len(set(criteria)):
        raise _unmapped("a criterion twice, or one that the work item does not have")


def require_bearing(evidence: Evidence, completion: CompletionInput, *, work_item_id: str) -> None:
    """Raise EvidenceMissing unless a record belongs to this work and source state and reaches the minimum level."""
    problem = None
    if evidence.work_item_id != work_item_id:
        problem = "evidence of other work"
    elif evidence.branch_id is not None:
        problem = "evidence of another branch"
    elif rank(evidence.level) < rank(completion.minimum_level):
        problem = f"evidence of level {evidence.level}"
    elif currency(evidence, source_sha=completion.source_sha) != "current":
        problem = "evidence of another source state"
    if problem is not None:
        raise EvidenceMissing(
            "an evidence record does not bear out this completion",
            got=problem,
            expected=f"evidence of this work item, of the stated source_sha, at least {completion.minimum_level}",
            next_step="verify this state of the source, record the report with awr evidence add, and map that",
        )


def currency(evidence: Evidence, *, source_sha: str | None) -> Currency:
    """Say whether evidence speaks of a state of the source code; unknown when either side names none."""
    if source_sha is None or evidence.source_sha is None:
        return "unknown"
    return "current" if evidence.source_sha.lower() == source_sha.lower() else "historical"


def validate_report(report: Report, *, now: int) -> None:
    """Check a report by itself. Raise InvalidInput for its form, EvidenceMissing for a check that did not pass."""
    names = [check.name for check in report.checks]
    _require_hex("source_sha of the report", report.source_sha, _SOURCE_SHA, expected="40 or 64 hexadecimal digits")
    problem = None
    if report.version != 1:
        problem = f"version {report.version}"
    elif not report.checks or len(set(names)) != len(names) or not all(name.strip() for name in names):
        problem = "no checks" if not report.checks else "a check without a name of its own"
    elif not report.command.strip() or not report.scope or not all(entry.strip() for entry in report.scope):
        problem = "no command or no scope"
    elif any(not (check.details or check.result or "").strip() for check in report.checks):
        problem = "a check that does not say how it went"
    if problem is not None:
        raise InvalidInput(
            "the report breaks a rule of its form",
            got=problem,
            expected="version 1, a command, a scope, and checks with names of their own and details or a result",
            next_step="write the report anew with these fields",
        )
    if report.verified_at > now:
        raise _future()
    if not all(check.passed for check in report.checks):
        raise EvidenceMissing(
            "a check of the report did not pass",
            got=f"{sum(not check.passed for check in report.checks)} of {len(names)} checks failed",
            expected="every check passed",
            next_step="correct the work, verify again, and record the new report",
        )


def report_criteria(report: Report) -> frozenset[str]:
    """Return the criteria that a report's checks cover."""
    return frozenset(criterion for check in report.checks for criterion in check.criteria)


def require_agreement(report: Report, evidence: Evidence, *, work_item_key: str) -> None:
    """Raise EvidenceMissing unless a report says what its record says."""
    differing = [
        name
        for name, same in (
            ("work_item", report.work_item == work_item_key),
            ("source_sha", report.source_sha.lower() == (evidence.source_sha or "").lower()),
            ("command", report.command == evidence.command),
            ("scope", set(report.scope) == set(evidence.scope)),
            ("verified_at", report.verified_at == evidence.verified_at),
        )
        if not same
    ]
    if differing:
        raise EvidenceMissing(
            "a report and its evidence record do not agree",
            got="another " + ", another ".join(differing),
            expected="the same work item, source_sha, command, scope and time in both",
            next_step="record the report as it is, under a new key",
        )


def _unmapped(got: str) -> EvidenceMissing:
    return EvidenceMissing(
        "a completion maps every criterion of the work item exactly once to evidence",
        got=got,
        expected="each current criterion once, word for word, with at least one evidence key",
        next_step="run awr work show to see the criteria, or awr work prepare-completion to have them mapped",
    )


def _require_hex(name: str, value: str | None, pattern: re.Pattern[str], *, expected: str) -> None:
    if value is not None and not pattern.fullmatch(value):
        raise InvalidInput(
            f"{name} is no hash",
            got=f"a text of {len(value.encode('utf-8', 'surrogatepass'))} bytes",
            expected=expected,
            next_step="give the whole hash",
        )


def _future() -> InvalidInput:
    return InvalidInput(
        "the time of the verification lies in the future",
        got="a later time than now",
        expected="Unix milliseconds of the past",
        next_step="correct verified_at; it counts milliseconds",
    )


def covering(reports: Mapping[str, Report], entry: CriterionEvidence) -> bool:
    """Tell whether each report that a criterion is mapped to covers that criterion."""
    return all(entry.criterion in report_criteria(reports[key]) for key in entry.evidence)
