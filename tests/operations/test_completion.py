"""Done means evidence: work is completed when every criterion is borne out by a report that still says so."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.domain.evidence import CompletionInput, CriterionEvidence
from awr.errors import (
    AwrError,
    DependencyBlocked,
    EvidenceMissing,
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    RuleViolation,
    SourceStale,
)
from awr.operations.completion import CompleteRequest, PrepareRequest, PrepareResult, complete, prepare
from awr.operations.evidence import AddRequest, add
from awr.operations.mutation import ProposalReport
from awr.operations.work import ShowRequest, show
from awr.project import Project
from tests.support.cli import tree
from tests.support.projects import LEDGER, Clock, begin_session, make_project, revision

SHA = "a" * 40
NOW = Clock().now
PAGE = LEDGER.replace("status: planned", "status: in_progress", 1).replace(
    "      - Every sample parses\n", "      - Every sample parses\n      - Errors are named\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    found = make_project(tmp_path / "p", ledger=PAGE)
    (found.root / "reports").mkdir()
    return found


def report(**changes: Any) -> dict[str, Any]:
    check = {"name": "samples", "passed": True, "details": "all", "criteria": ["Every sample parses"]}
    other = {"name": "errors", "passed": True, "result": "ok", "criteria": ["Errors are named"]}
    return {
        "version": 1,
        "work_item": "parse",
        "source_sha": SHA,
        "command": "pytest",
        "scope": ["parser"],
        "verified_at": NOW - 10,
        "checks": [check, other],
        **changes,
    }


def record(
    project: Project, body: object = None, *, key: str = "tests-1", path: str = "reports/one.json", **changes: Any
) -> None:
    """Write a report and record it as evidence."""
    data = json.dumps(report() if body is None else body).encode()
    (project.root / path).parent.mkdir(parents=True, exist_ok=True)
    (project.root / path).write_bytes(data)
    stated: dict[str, Any] = {
        "external_key": key,
        "work": "parse",
        "evidence_type": "test_report",
        "level": "locally_verified",
        "summary": "All tests pass",
        "locator": path,
        "sha256": hashlib.sha256(data).hexdigest(),
        "source_sha": SHA,
        "command": "pytest",
        "scope": ("parser",),
        "verified_at": NOW - 10,
        "expected_revision": revision(project),
    }
    add(project, AddRequest(**{**stated, **changes}))


def completion(one: str = "tests-1", two: str = "tests-1", **changes: Any) -> CompletionInput:
    entries = (
        CriterionEvidence(criterion="Every sample parses", evidence=(one,)),
        CriterionEvidence(criterion="Errors are named", evidence=(two,)),
    )
    return msgspec.structs.replace(CompletionInput(version=1, source_sha=SHA, acceptance=entries), **changes)


def done(project: Project, **changes: Any) -> ProposalReport:
    stated: dict[str, Any] = {"work": "parse", "reason": "proved", "expected_revision": revision(project)}
    if not {"input", "completion"} & changes.keys():
        stated["completion"] = completion()
    return complete(project, CompleteRequest(**{**stated, **changes}))


def require_refused(project: Project, error: type[AwrError], **changes: Any) -> AwrError:
    before = (revision(project), (project.root / "work-ledger.yaml").read_text())
    with pytest.raises(error) as caught:
        done(project, **changes)
    assert (revision(project), (project.root / "work-ledger.yaml").read_text()) == before
    return caught.value


def test_work_with_proof_of_every_criterion_is_completed_in_source_and_journal(project: Project) -> None:
    begin_session(project, claim=True)
    record(project)
    record(project, key="tests-2", path="reports/two.json", level="released")
    outcome = done(project, completion=completion("tests-1", "tests-2"))
    assert outcome.proposal.status == "applied"
    page = (project.root / "work-ledger.yaml").read_text()
    assert page == PAGE.replace(
        "    status: in_progress\n",
        "    status: completed\n    evidence:\n      - reports/one.json\n      - reports/two.json\n"
        "    verification:\n      evidence_level: locally_verified\n",
    )
    assert show(project, ShowRequest(work="parse")).work.status == "completed"
    with project.journal.read() as reader:
        rows = reader.database.rows(
            "SELECT event_type FROM events WHERE project_revision = ? ORDER BY position", (outcome.project_revision,)
        )
    assert [row["event_type"] for row in rows] == ["proposal.applied", "work.completed", "claim.released"]


def test_the_input_may_be_a_file(project: Project) -> None:
    begin_session(project, claim=True)
    record(project)
    (project.root / "done.json").write_bytes(msgspec.json.encode(completion()))
    assert done(project, input="done.json").proposal.status == "applied"


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"{", InvalidInput),
        (b"[]", InvalidInput),
        (b'{"version": 1}', InvalidInput),
        (b'{"version": 1, "source_sha": "", "acceptance": [], "other": 1}', InvalidInput),
        (b" " * (64 * 1024 + 1), InvalidInput),
        (None, NotFound),
    ],
)
def test_an_input_file_that_is_not_one_is_refused(
    project: Project, content: bytes | None, error: type[AwrError]
) -> None:
    begin_session(project, claim=True)
    if content is not None:
        (project.root / "done.json").write_bytes(content)
    require_refused(project, error, input="done.json")


def test_a_completion_is_given_once(project: Project) -> None:
    begin_session(project, claim=True)
    require_refused(project, EvidenceMissing, completion=None)
    require_refused(project, InvalidInput, completion=completion(), input="done.json")


def test_a_stale_revision_comes_before_everything_else(project: Project) -> None:
    begin_session(project, claim=True)
    require_refused(project, RevisionConflict, expected_revision=2)


def test_work_that_is_not_under_way_or_not_held_is_refused(project: Project) -> None:
    begin_session(project)
    record(project)
    require_refused(project, InvalidTransition)


def test_dependencies_come_before_the_criteria_and_the_blocker_behind_the_evidence(project: Project) -> None:
    begin_session(project, claim=True)
    record(project)
    path = project.root / "work-ledger.yaml"
    blocked = PAGE.replace("    next_action: Write the grammar\n", "    blocker: no host\n")
    path.write_text(blocked)
    show(project, ShowRequest(work="parse"))
    require_refused(project, EvidenceMissing, completion=completion("none", "none"))
    error = require_refused(project, DependencyBlocked)
    assert error.details["got"] == "active_blocker"
    path.write_text(blocked.replace("    blocker: no host\n", "    blocker: no host\n    depends_on: [report]\n"))
    show(project, ShowRequest(work="parse"))
    error = require_refused(project, DependencyBlocked, completion=completion("none", "none"))
    assert "dependency" in str(error.details["got"])


def test_criteria_that_changed_since_are_not_borne_out(project: Project) -> None:
    begin_session(project, claim=True)
    record(project)
    page = PAGE.replace("Every sample parses", "Every sample parses fast")
    (project.root / "work-ledger.yaml").write_text(page)
    show(project, ShowRequest(work="parse"))
    require_refused(project, EvidenceMissing)


def test_a_report_changed_by_one_byte_is_refused(project: Project) -> None:
    begin_session(project, claim=True)
    record(project)
    path = project.root / "reports" / "one.json"
    path.write_bytes(path.read_bytes() + b"\n")
    require_refused(project, EvidenceMissing)
    path.unlink()
    require_refused(project, EvidenceMissing)


@pytest.mark.parametrize(
    "wrong",
    [
        {"work_item": "report"},
        {"source_sha": "b" * 40},
        {"command": "make"},
        {"scope": ["lexer"]},
        {"verified_at": NOW - 11},
        {"checks": [{"name": "a", "passed": False, "details": "x", "criteria": ["Every sample parses"]}]},
        {"checks": [{"name": "a", "passed": True, "details": "x", "criteria": ["Every sample parses"]}]},
    ],
)
def test_a_report_that_does_not_bear_it_out_is_refused(project: Project, wrong: dict[str, Any]) -> None:
    begin_session(project, claim=True)
    record(project, report(**wrong))
    require_refused(project, EvidenceMissing)


@pytest.mark.parametrize("body", [{}, [], report(version=2), report(checks=[]), {**report(), "scope": "parser"}])
def test_a_report_of_another_form_is_refused(project: Project, body: object) -> None:
    begin_session(project, claim=True)
    record(project, body)
    require_refused(project, InvalidInput)


def test_evidence_of_other_work_or_below_the_minimum_level_is_refused(project: Project) -> None:
    begin_session(project, claim=True)
    record(project, work="report")
    record(project, key="tests-2", level="designed")
    record(project, key="tests-3")
    require_refused(project, EvidenceMissing)
    require_refused(project, EvidenceMissing, completion=completion("tests-2", "tests-2"))
    released = completion("tests-3", "tests-3", minimum_level="released")
    require_refused(project, EvidenceMissing, completion=released)
    require_refused(
        project, EvidenceMissing, completion=completion("tests-3", "tests-3", required_evidence=("none",))
    )
    assert done(project, completion=completion("tests-3", "tests-3")).proposal.status == "applied"


@pytest.mark.parametrize("path", [".awr/one.json", ".awr/mutations/one.json", "./.awr/one.json"])
def test_a_report_among_files_that_awr_writes_is_refused(project: Project, path: str) -> None:
    begin_session(project, claim=True)
    record(project, path=path)
    require_refused(project, RuleViolation)


def test_a_report_among_the_artifacts_is_accepted_and_the_ledger_itself_is_none(project: Project) -> None:
    begin_session(project, claim=True)
    record(project, key="own", locator="work-ledger.yaml")
    require_refused(project, RuleViolation, completion=completion("own", "own"))
    record(project, path=".awr/artifacts/one.json")
    assert done(project).proposal.status == "applied"


@pytest.mark.parametrize("locator", ["../outside.json", "/etc/hostname", "file:///etc/hostname"])
def test_a_report_outside_of_the_project_is_refused(project: Project, locator: str) -> None:
    begin_session(project, claim=True)
    record(project, locator=locator)
    require_refused(project, RuleViolation)


def test_a_report_behind_a_link_is_refused(project: Project, tmp_path: Path) -> None:
    begin_session(project, claim=True)
    record(project)
    path = project.root / "reports" / "one.json"
    path.rename(tmp_path / "one.json")
    path.symlink_to(tmp_path / "one.json")
    require_refused(project, RuleViolation)


def test_a_report_above_one_mebibyte_is_refused(project: Project) -> None:
    begin_session(project, claim=True)
    record(project, report(padding="x" * 1024 * 1024))
    require_refused(project, EvidenceMissing)


def prepared(project: Project, **changes: Any) -> PrepareResult:
    stated = {
        "work": "parse",
        "report": "reports/one.json",
        "evidence_key": "tests-1",
        "source_sha": SHA,
        "level": "locally_verified",
    }
    return prepare(project, PrepareRequest(**{**stated, **changes}))


def test_a_report_is_prepared_as_evidence_and_completion_and_nothing_is_written(project: Project) -> None:
    (project.root / "reports" / "one.json").write_text(json.dumps(report()))
    before = tree(project.root)
    result = prepared(project)
    assert tree(project.root) == before
    assert (result.stage, result.version, result.level_basis) == ("report_validated", 1, "caller_assertion")
    assert (result.verification_executed, result.completion_claimed, result.uncovered) == (False, False, ())
    assert result.completion == completion()
    begin_session(project, claim=True)
    draft = msgspec.structs.asdict(result.evidence)
    add(project, AddRequest(**draft, expected_revision=revision(project)))
    assert done(project, completion=result.completion).proposal.status == "applied"


def test_what_a_report_does_not_cover_is_named(project: Project) -> None:
    body = report(checks=report()["checks"][:1])
    (project.root / "reports" / "one.json").write_text(json.dumps(body))
    result = prepared(project)
    assert result.uncovered == ("Errors are named",)
    assert [one.criterion for one in result.completion.acceptance] == ["Every sample parses"]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"report": "reports/none.json"}, EvidenceMissing),
        ({"report": "work-ledger.yaml"}, RuleViolation),
        ({"report": "../x"}, RuleViolation),
        ({"work": "none"}, NotFound),
        ({"work": "report"}, EvidenceMissing),
        ({"source_sha": "b" * 40}, EvidenceMissing),
        ({"level": "implemented"}, InvalidInput),
        ({"evidence_key": ""}, InvalidInput),
    ],
)
def test_a_report_that_does_not_fit_is_not_prepared(
    project: Project, wrong: dict[str, Any], error: type[AwrError]
) -> None:
    (project.root / "reports" / "one.json").write_text(json.dumps(report()))
    with pytest.raises(error):
        prepared(project, **wrong)


def test_criteria_that_are_not_indexed_yet_are_stale(project: Project) -> None:
    (project.root / "reports" / "one.json").write_text(json.dumps(report()))
    (project.root / "work-ledger.yaml").write_text(PAGE + "# edited\n")
    with pytest.raises(SourceStale):
        prepared(project)
