"""Evidence is recorded once, as stated, and shown with what it speaks of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awr.errors import EvidenceMissing, InvalidInput, NotFound, RevisionConflict, RuleViolation, SourceConflict
from awr.operations.evidence import AddRequest, AddResult, ShowRequest, add, show
from awr.operations.journal import RebuildRequest, rebuild
from awr.project import Project
from tests.support.projects import LEDGER, make_project, revision

SHA = "a" * 40


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "p")


def record(project: Project, **changes: Any) -> AddResult:
    stated: dict[str, Any] = {
        "external_key": "design-1",
        "evidence_type": "review",
        "level": "designed",
        "summary": "Agreed",
        "locator": "docs/design.md",
        "scope": ("parser",),
        "work": "parse",
        "expected_revision": revision(project),
    }
    return add(project, AddRequest(**{**stated, **changes}))


VERIFIED = {
    "level": "locally_verified",
    "sha256": "B" * 64,
    "source_sha": SHA.upper(),
    "command": "pytest",
    "verified_at": 5,
}


def test_evidence_is_recorded_as_stated_and_the_journal_can_rebuild_it(project: Project) -> None:
    result = record(project, **VERIFIED)
    assert result.validation_basis == "caller_supplied_bindings"
    assert result.project_revision == revision(project) == result.evidence.revision == 3
    assert (result.evidence.sha256, result.evidence.source_sha) == ("b" * 64, SHA)
    with project.journal.read() as reader:
        row = reader.database.row("SELECT event_type, payload FROM events WHERE id = ?", (result.event_id,))
    assert row is not None
    assert row["event_type"] == "evidence.recorded"
    assert set(rebuild(project, RebuildRequest()).rows_corrected.values()) == {0}
    by_key = show(project, ShowRequest(evidence="design-1", source_sha=SHA)).evidence
    by_id = show(project, ShowRequest(evidence=result.evidence.id, source_sha="c" * 40)).evidence
    assert [one.evidence for one in (*by_key, *by_id)] == [result.evidence, result.evidence]
    assert [one.currency for one in (*by_key, *by_id)] == ["current", "historical"]


def test_evidence_may_be_about_no_work_in_particular(project: Project) -> None:
    assert record(project, work=None).evidence.work_item_id is None


def test_a_key_is_never_used_twice(project: Project) -> None:
    record(project)
    with pytest.raises(SourceConflict):
        record(project, summary="Changed")
    assert revision(project) == 3


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"level": "locally_verified"}, EvidenceMissing),
        ({"work": "none"}, NotFound),
        ({"summary": " "}, InvalidInput),
        ({"scope": ()}, InvalidInput),
        ({"summary": "x" * 1024 * 1024}, InvalidInput),
        ({"command": "curl -H 'Authorization: Bearer " + "a1B2" * 9 + "'"}, RuleViolation),
        ({"expected_revision": 1}, RevisionConflict),
        ({**VERIFIED, "verified_at": 2**52}, InvalidInput),
    ],
)
def test_evidence_that_breaks_a_rule_is_refused_and_nothing_is_recorded(
    project: Project, wrong: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        record(project, **wrong)
    assert revision(project) == 2


def test_all_of_a_work_items_evidence_is_shown_with_what_its_source_names(tmp_path: Path) -> None:
    page = LEDGER.replace(
        "    goal: goal-1\n", "    goal: goal-1\n    evidence: [{path: old.txt, summary: before}]\n"
    )
    project = make_project(tmp_path / "p", ledger=page)
    record(project)
    record(project, external_key="design-2", work="report")
    found = show(project, ShowRequest(work="parse"))
    assert [(one.evidence.external_key, one.currency) for one in found.evidence] == [("design-1", "unknown")]
    assert [(one.external_key, one.level, one.summary) for one in found.source_references] == [
        ("parse/evidence/old.txt", "unknown", "before")
    ]


def test_evidence_is_asked_for_in_one_way(project: Project) -> None:
    with pytest.raises(InvalidInput):
        show(project, ShowRequest())
    with pytest.raises(InvalidInput):
        show(project, ShowRequest(evidence="a", work="parse"))
    with pytest.raises(NotFound):
        show(project, ShowRequest(evidence="none"))
    with pytest.raises(NotFound):
        show(project, ShowRequest(work="none"))
