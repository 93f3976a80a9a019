"""Which work a context is about, and for whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awr.errors import InvalidInput, NotFound, RuleViolation, Unsupported
from awr.project import Project
from tests.support.contexts import LEDGER, compiled, make_context_project, write_source
from tests.support.projects import begin_session


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_context_project(tmp_path / "p")


def basis(project: Project, work: str | None, **fields: Any) -> tuple[str, str | None, str | None]:
    result = compiled(project, work, **fields)
    return result.selection_basis, result.completeness.work_item_key, result.session_id


def test_named_work_is_taken(project: Project) -> None:
    assert basis(project, "parse") == ("explicit_work", "parse", None)
    assert basis(project, "parse", detached=True) == ("explicit_work_detached_session", "parse", None)


def test_the_work_of_the_session_is_taken(project: Project) -> None:
    session = begin_session(project, work="parse")
    assert basis(project, None, session=session) == ("session", "parse", session)
    assert basis(project, "parse", session=session) == ("explicit_work", "parse", session)


def test_the_only_work_under_way_is_taken(project: Project) -> None:
    assert basis(project, None) == ("source_current", "grammar", None)
    session = begin_session(project, work=None)
    assert basis(project, None, session=session) == ("source_current", "grammar", session)


def test_several_items_under_way_need_a_name(project: Project) -> None:
    write_source(project, "work-ledger.yaml", "else\n    status: planned", "else\n    status: claimed")
    with pytest.raises(InvalidInput) as caught:
        compiled(project, None)
    assert caught.value.details["got"] == "2 that are claimed or in progress"


def test_archived_work_is_not_under_way(project: Project) -> None:
    write_source(
        project, "work-ledger.yaml", "else\n    status: planned", "else\n    status: claimed\n    archived: true"
    )
    assert basis(project, None) == ("source_current", "grammar", None)


def test_no_work_at_all_is_said(project: Project) -> None:
    write_source(project, "work-ledger.yaml", "status: in_progress", "status: planned")
    result = compiled(project, None)
    assert (result.selection_basis, result.work_context, result.ok) == ("none", None, False)
    assert "No work was named" in (result.diagnostic_text or "")


def test_work_that_left_the_sources_is_said_for_its_session(project: Project) -> None:
    session = begin_session(project, work="other")
    other = LEDGER[LEDGER.index("  - id: other") : LEDGER.index("milestones:")]
    write_source(project, "work-ledger.yaml", other, "")
    assert basis(project, None, session=session) == ("session_work_retired", "other", session)
    assert basis(project, "other") == ("explicit_work_missing", "other", None)


@pytest.mark.parametrize("fields", [{"work": "grammar"}, {"agent": "somebody-else"}, {"work": "nowhere"}])
def test_a_session_of_other_work_or_of_another_agent_is_refused(project: Project, fields: dict[str, str]) -> None:
    session = begin_session(project, work="parse")
    with pytest.raises(RuleViolation):
        compiled(project, **{"work": "parse", "session": session, **fields})


def test_an_unknown_session_is_not_found(project: Project) -> None:
    with pytest.raises(NotFound):
        compiled(project, None, session="01M8Q9W0H5ZVHD9HKJBFPCHAPW")


def test_another_branch_is_not_offered(project: Project) -> None:
    with pytest.raises(Unsupported):
        compiled(project, branch="side")


@pytest.mark.parametrize(
    "fields",
    [
        {"work": " "},
        {"intent": ""},
        {"goals": ("",)},
        {"paths": (" ",)},
        {"tags": ("a\nb",)},
        {"agent": ""},
        {"budget": 0},
        {"budget": 100_001},
        {"source_sha": "abc"},
        {"detached": True, "work": None},
        {"detached": True, "session": "x"},
        {"checkpoint": "x", "after_revision": 1},
    ],
)
def test_a_request_that_breaks_a_bound_is_refused(project: Project, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        compiled(project, **{"work": "parse", **fields})


def test_an_error_repeats_nothing_of_the_request(project: Project) -> None:
    with pytest.raises(InvalidInput) as caught:
        compiled(project, tags=("confidential\n",))
    assert "confidential" not in str(caught.value.report())


def test_a_secret_in_the_request_is_refused(project: Project) -> None:
    with pytest.raises(RuleViolation):
        compiled(project, intent="sk-ant-0123456789abcdefghij")
