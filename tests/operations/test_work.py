"""Looking at one work item: what the file says, what the journal says, what is in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from awr.errors import InvalidInput, NotFound, SourceStale, Unsupported
from awr.operations.session import StartRequest, start
from awr.operations.work import ShowRequest, ShowResult, show
from awr.project import Project
from tests.support.projects import LEDGER, Clock, make_project, revision

SECRET = "sk-ant-0123456789abcdefghij"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    return make_project(tmp_path / "project", clock=clock)


def look(project: Project, work: str, *, cached: bool = False) -> ShowResult:
    return show(project, ShowRequest(work=work, cached=cached))


def claim(project: Project, *, ttl_ms: int | None = None) -> str:
    labels = {"agent": "agent-1", "provider": "p", "model": "m"}
    request = StartRequest(**labels, work="parse", claim=True, ttl_ms=ttl_ms, expected_revision=revision(project))
    return start(project, request).session.id


def break_ledger(project: Project) -> None:
    (project.root / "work-ledger.yaml").write_text(f"work_items: [{SECRET}")


def test_ready_work_is_shown_with_its_acceptance_and_its_place(project: Project) -> None:
    result = look(project, "parse")
    work = result.work
    assert (work.external_key, work.title, work.status, work.raw_status) == (
        "parse",
        "Parse input",
        "planned",
        "planned",
    )
    assert (work.next_action, work.blocker, work.owner, work.priority) == ("Write the grammar", None, None, None)
    assert (work.ready, work.diagnostics, work.active_claims) == (True, (), ())
    assert (work.freshness, work.revision, work.source_revision, work.archived) == ("fresh", 1, 1, False)
    assert result.acceptance == ("Every sample parses",)
    line = LEDGER.splitlines().index("  - id: parse") + 1
    assert result.source_ref == work.source_ref == f"work-ledger.yaml:{line}"
    assert (result.freshness_basis, result.source_refresh_performed) == ("source_refresh", True)


def test_dependencies_that_are_open_are_named_and_keep_it_from_being_ready(project: Project) -> None:
    result = look(project, "report")
    assert result.required_dependencies == ({"external_key": "parse", "title": "Parse input", "status": "planned"},)
    assert [(one.code, one.work_item_key) for one in result.work.diagnostics] == [
        ("dependency_not_completed", "parse")
    ]
    assert (result.work.ready, result.missing_dependencies, result.dependency_cycles) == (False, (), ())


def test_a_dependency_on_nothing_is_missing(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", ledger=LEDGER.replace("[parse]", "[parse, nowhere]"))
    assert look(project, "report").missing_dependencies == ("nowhere",)


def test_a_circle_of_dependencies_is_named(tmp_path: Path) -> None:
    ledger = LEDGER.replace("    goal: goal-1\n    next", "    depends_on: [report]\n    next")
    assert look(make_project(tmp_path / "p", ledger=ledger), "parse").dependency_cycles == ("parse",)


def test_work_that_is_done_is_not_ready_again(project: Project) -> None:
    assert [one.code for one in look(project, "release").work.diagnostics] == ["status_not_selectable"]


def test_a_status_without_a_meaning_stays_as_it_was_written_and_is_unknown(tmp_path: Path) -> None:
    work = look(make_project(tmp_path / "p", ledger=LEDGER.replace("completed", "Done ")), "release").work
    assert (work.status, work.raw_status) == ("unknown", "Done")
    assert [one.code for one in work.diagnostics] == ["unknown_status"]


def test_who_holds_the_work_is_shown_until_the_claim_lapses(project: Project, clock: Clock) -> None:
    session = claim(project, ttl_ms=50)
    (held,) = look(project, "parse").work.active_claims
    assert (held.session_id, held.agent_id, held.expires_at) == (session, "agent-1", clock.now + 50)
    assert [one.code for one in look(project, "parse").work.diagnostics] == ["active_claim"]
    clock.now += 50
    work = look(project, "parse").work
    assert (work.active_claims, work.ready) == ((), True)


def test_a_long_summary_is_cut_to_240_characters(tmp_path: Path) -> None:
    ledger = LEDGER.replace("title: Release", "title: Release\n    summary: " + "é" * 300)
    assert look(make_project(tmp_path / "p", ledger=ledger), "release").work.summary == "é" * 240


def test_an_edit_is_seen_at_once_and_a_cached_answer_does_not_look(project: Project) -> None:
    path = project.root / "work-ledger.yaml"
    path.write_text(path.read_text().replace("Parse input", "Parse all"))
    cached = look(project, "parse", cached=True)
    assert cached.work.title == "Parse input"
    assert (cached.freshness_basis, cached.source_refresh_performed) == ("last_recorded_source_state", False)
    assert revision(project) == 2
    fresh = look(project, "parse")
    assert (fresh.work.title, fresh.work.revision, fresh.project_revision) == ("Parse all", 2, 3)


def test_a_broken_source_is_an_error_and_a_cached_answer_says_it_is_stale(project: Project) -> None:
    break_ledger(project)
    with pytest.raises(SourceStale) as caught:
        look(project, "parse")
    assert "work-ledger.yaml" in str(caught.value)
    assert caught.value.details["location"]
    assert SECRET not in str(caught.value.report())
    work = look(project, "parse", cached=True).work
    assert (work.title, work.freshness, work.ready) == ("Parse input", "stale", False)
    assert [one.code for one in work.diagnostics] == ["source_not_fresh"]


def test_a_missing_source_is_named_each_time(project: Project) -> None:
    (project.root / "work-ledger.yaml").unlink()
    for _ in range(2):
        with pytest.raises(SourceStale) as caught:
            look(project, "parse")
        assert "work-ledger.yaml" in str(caught.value)
    assert look(project, "parse", cached=True).work.freshness == "unavailable"


@pytest.mark.parametrize("key", ["", "nothing", "PARSE", "goal-1", " parse"])
def test_unknown_work_is_not_found(project: Project, key: str) -> None:
    with pytest.raises(NotFound):
        look(project, key)


def test_a_key_that_is_no_text_is_refused_as_bad_input(project: Project) -> None:
    with pytest.raises((InvalidInput, NotFound)):
        look(project, "\udcff")


def test_work_that_left_the_ledger_is_not_found(project: Project) -> None:
    (project.root / "work-ledger.yaml").write_text(LEDGER.partition("  - id: release")[0])
    with pytest.raises(NotFound):
        look(project, "release")


def test_another_branch_is_unsupported(project: Project) -> None:
    with pytest.raises(Unsupported):
        show(project, ShowRequest(work="parse", branch="feature"))
    assert show(project, ShowRequest(work="parse", branch="main")).work.external_key == "parse"
