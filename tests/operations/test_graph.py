"""The graph of work: whole or not at all, and broken places by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from awr.errors import BudgetExceeded, InvalidInput, NotFound, Unsupported
from awr.operations.graph import GraphRequest, graph
from awr.project import Project
from tests.support.cli import call
from tests.support.projects import begin_session, make_project

CHAIN = "work_items:\n  - {id: w0, title: W, status: completed}\n" + "".join(
    f"  - {{id: w{n}, title: W, status: planned, depends_on: [w{n - 1}]}}\n" for n in range(1, 6)
)
BROKEN = """\
work_items:
  - {id: a, title: A, status: planned, depends_on: [b]}
  - {id: b, title: B, status: planned, depends_on: [a]}
  - {id: c, title: C, status: planned, depends_on: [gone]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project", ledger=CHAIN)


def test_without_roots_the_whole_graph_is_shown(project: Project) -> None:
    result = graph(project, GraphRequest())
    assert [node.key for node in result.nodes] == ["w0", "w1", "w2", "w3", "w4", "w5"]
    assert [node.ready for node in result.nodes] == [False, True, False, False, False, False]
    assert (result.graph_valid, result.complete, result.cycle, result.cycles) == (True, True, None, ())
    assert (result.missing_required, result.affected, result.execution_admitted) == ((), (), False)


def test_a_root_brings_dependents_and_required_ancestors(project: Project) -> None:
    result = graph(project, GraphRequest(roots=("w4",)))
    assert result.affected == ("w5",)
    assert len(result.nodes) == 6
    node = result.nodes[4]
    assert (node.source_ref.locator, node.source_ref.line) == ("work-ledger.yaml", 6)
    assert str(node.source_ref.source_fingerprint).startswith("sha256:")


def test_a_graph_over_the_limit_is_refused_with_its_size(project: Project) -> None:
    assert len(graph(project, GraphRequest(limit=6)).nodes) == 6
    with pytest.raises(BudgetExceeded) as raised:
        graph(project, GraphRequest(limit=5))
    assert (raised.value.details["required"], raised.value.details["budget"]) == (6, 5)
    assert "limit" in str(raised.value.details["next_step"])


def test_circles_and_missing_references_are_named(tmp_path: Path) -> None:
    result = graph(make_project(tmp_path / "p", ledger=BROKEN), GraphRequest())
    assert (result.graph_valid, result.complete) == (False, False)
    assert result.cycle == ("a", "b")
    assert [(link.source, link.target) for link in result.missing_required] == [("c", "gone")]


def test_the_fingerprint_changes_with_the_graph_and_with_nothing_else(project: Project) -> None:
    before = graph(project, GraphRequest())
    begin_session(project, work="w1", claim=True)
    after = graph(project, GraphRequest())
    assert after.project_revision > before.project_revision
    assert after.nodes[1].active_claims == 1
    assert after.graph_fingerprint == before.graph_fingerprint
    path = project.root / "work-ledger.yaml"
    path.write_text(path.read_text().replace("[w4]", "[w3]"))
    assert graph(project, GraphRequest()).graph_fingerprint != before.graph_fingerprint


def test_unknown_and_too_many_roots_are_refused(project: Project) -> None:
    with pytest.raises(NotFound):
        graph(project, GraphRequest(roots=("zebra",)))
    with pytest.raises(InvalidInput):
        graph(project, GraphRequest(roots=tuple(f"r{n}" for n in range(101))))
    with pytest.raises(Unsupported):
        graph(project, GraphRequest(branch="other"))


def test_an_empty_project_has_an_empty_valid_graph(tmp_path: Path) -> None:
    result = graph(make_project(tmp_path / "p", ledger="work_items: []\n"), GraphRequest())
    assert (result.nodes, result.edges, result.graph_valid) == ((), (), True)


def test_a_person_reads_the_broken_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_project(tmp_path / "p", ledger=BROKEN)
    shown = call(capsys, "--project", tmp_path / "p", "work", "graph")
    assert shown.code == 0
    assert "circle: a -> b -> a" in shown.out
    assert "missing: c depends on gone" in shown.out
    assert "the graph is not valid" in shown.out
