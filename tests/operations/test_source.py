"""The source commands: what they report and when they are an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from awr.errors import NotFound, SourceStale
from awr.operations.source import (
    ListRequest,
    ReindexRequest,
    ScanRequest,
    ShowRequest,
    listing,
    reindex,
    scan,
    show,
)
from awr.project import Project
from tests.support.projects import MANIFEST, make_project, revision


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


def test_a_source_is_listed_as_last_recorded_without_a_look_at_the_file(project: Project) -> None:
    (project.root / "work-ledger.yaml").unlink()
    result = listing(project, ListRequest())
    (source,) = result.sources
    assert (source.locator, source.domain, source.role, source.adapter) == (
        "work-ledger.yaml",
        "ledger",
        "primary",
        "yaml-ledger-v1",
    )
    assert (source.freshness, source.source_revision, source.warnings) == ("fresh", 1, 0)
    assert source.fingerprint is not None
    assert source.fingerprint.startswith("sha256:")
    assert (result.source_refresh_performed, result.project_revision) == (False, 2)


@pytest.mark.parametrize("by_id", [True, False])
def test_a_source_is_shown_by_id_and_by_path_with_what_it_names(project: Project, by_id: bool) -> None:
    (listed,) = listing(project, ListRequest()).sources
    result = show(project, ShowRequest(source=listed.id if by_id else listed.locator))
    assert result.source == listed
    assert {(row.kind, row.external_key) for row in result.entities} == {
        ("goal", "goal-1"),
        ("work_item", "parse"),
        ("work_item", "report"),
        ("work_item", "release"),
    }


@pytest.mark.parametrize("name", ["", "nothing.yaml", "../work-ledger.yaml", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_an_unknown_source_is_not_found(project: Project, name: str) -> None:
    with pytest.raises(NotFound):
        show(project, ShowRequest(source=name))


def test_an_up_to_date_project_has_no_problem(project: Project) -> None:
    for result in (scan(project, ScanRequest()), reindex(project, ReindexRequest())):
        assert (result.ok, result.problem(), result.unchanged) == (True, None, 1)
    assert revision(project) == 2


def test_force_parses_what_is_unchanged(project: Project) -> None:
    assert reindex(project, ReindexRequest(force=True)).indexed == 1


def test_a_broken_source_is_a_problem_with_its_place_and_its_own_code(project: Project) -> None:
    (project.root / "work-ledger.yaml").write_text("work_items:\n  - id: a\n    required: perhaps\n")
    problem = reindex(project, ReindexRequest()).problem()
    assert isinstance(problem, SourceStale)
    assert problem.details["source_code"] == "InvalidInput"
    place = problem.details["location"]
    assert isinstance(place, dict)
    assert (place["line"], place["locator"]) == (3, "work-ledger.yaml")


def test_a_missing_source_is_a_problem_each_time_one_asks(project: Project) -> None:
    (project.root / "work-ledger.yaml").unlink()
    for _ in range(2):
        result = reindex(project, ReindexRequest())
        problem = result.problem()
        assert not result.ok
        assert isinstance(problem, SourceStale)
        assert problem.details["source_code"] == "SourceUnavailable"


def test_a_scan_that_found_a_change_is_an_answer_and_no_problem(project: Project) -> None:
    path = project.root / "work-ledger.yaml"
    path.write_text(path.read_text() + "# more\n")
    result = scan(project, ScanRequest())
    assert (result.ok, result.pending, result.problem()) == (False, 1, None)


def test_a_status_with_no_meaning_is_a_warning_and_no_problem(project: Project) -> None:
    path = project.root / "work-ledger.yaml"
    path.write_text(path.read_text().replace("status: completed", "status: someday"))
    result = reindex(project, ReindexRequest())
    assert (result.ok, result.sources[0].warnings) == (True, 1)


def test_a_retired_source_is_no_longer_listed(project: Project) -> None:
    (project.root / "second.yaml").write_text("work_items:\n  - id: other\n    title: Other\n    status: planned\n")
    project.manifest_path.write_text(MANIFEST + MANIFEST.partition("\n\n")[2].replace("work-ledger", "second"))
    assert reindex(project, ReindexRequest()).indexed == 1
    project.manifest_path.write_text(MANIFEST)
    assert reindex(project, ReindexRequest()).retired == 1
    assert [source.locator for source in listing(project, ListRequest()).sources] == ["work-ledger.yaml"]
