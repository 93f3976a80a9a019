"""Which work may be claimed now, in which order, and what keeps the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from awr.errors import SourceStale, Unsupported
from awr.operations.ready import ReadyRequest, ReadyResult, ready
from tests.support.cli import call
from tests.support.projects import begin_session, make_project

LEDGER = """\
work_items:
  - {id: low, title: Low, status: ready, priority: low}
  - {id: none, title: None, status: planned}
  - {id: high, title: High, status: ready, priority: high, score: 1}
  - {id: higher, title: Higher, status: ready, priority: high, score: 2}
  - {id: waits, title: Waits, status: planned, depends_on: [high, gone]}
  - {id: odd, title: Odd, status: someday}
  - {id: stuck, title: Stuck, status: blocked, blocker: A reply}
  - {id: going, title: Going, status: in_progress}
  - {id: done, title: Done, status: completed}
  - {id: old, title: Old, status: ready, archived: true}
"""


def listed(root: Path, *, ledger: str = LEDGER, limit: int = 10) -> ReadyResult:
    return ready(make_project(root / "p", ledger=ledger), ReadyRequest(limit=limit))


def test_ready_work_comes_by_priority_score_and_key(tmp_path: Path) -> None:
    result = listed(tmp_path)
    assert [one.external_key for one in result.ready] == ["higher", "high", "low", "none"]
    assert all(one.ready and not one.diagnostics for one in result.ready)
    assert (result.ready_total, result.truncated, result.queue_basis) == (4, False, "eligible_for_new_claim")


def test_what_keeps_open_work_is_counted_by_reason(tmp_path: Path) -> None:
    result = listed(tmp_path)
    assert result.blocked_total == 4
    assert result.diagnostic_counts == {
        "active_blocker": 1,
        "dependency_not_completed": 1,
        "missing_dependency": 1,
        "status_not_selectable": 2,
        "unknown_status": 1,
    }
    assert len(result.blocked_sample) == 3
    assert {code.code for one in result.blocked_sample for code in one.diagnostics} <= set(result.diagnostic_counts)


def test_a_limit_cuts_the_list_and_not_the_totals(tmp_path: Path) -> None:
    result = listed(tmp_path, limit=1)
    assert [one.external_key for one in result.ready] == ["higher"]
    assert (result.ready_total, result.truncated) == (4, True)


def test_claimed_work_is_not_ready(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    begin_session(project, claim=True)
    result = ready(project, ReadyRequest())
    assert result.ready == ()
    assert result.diagnostic_counts["active_claim"] == 1


def test_a_project_without_work_has_nothing_ready(tmp_path: Path) -> None:
    result = listed(tmp_path, ledger="work_items: []\n")
    assert (result.ready, result.ready_total, result.blocked_total, result.diagnostic_counts) == ((), 0, 0, {})


def test_stale_work_is_never_ready(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    (project.root / "work-ledger.yaml").unlink()
    with pytest.raises(SourceStale):
        ready(project, ReadyRequest())
    result = ready(project, ReadyRequest(cached=True))
    assert result.ready_total == 0
    assert result.diagnostic_counts["source_not_fresh"] == 2


def test_another_branch_is_unsupported(tmp_path: Path) -> None:
    with pytest.raises(Unsupported):
        ready(make_project(tmp_path / "p"), ReadyRequest(branch="other"))


def test_a_person_reads_the_list_and_the_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_project(tmp_path / "p", ledger=LEDGER)
    shown = call(capsys, "--project", tmp_path / "p", "ready", "--limit", "2")
    assert shown.code == 0
    assert "higher" in shown.out
    assert "and 2 more" in shown.out
    assert "4 work items not ready" in shown.out
    assert "missing_dependency 1" in shown.out
