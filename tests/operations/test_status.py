"""How a project stands, in each of its views."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from awr.domain.card import MAX_CARD_BYTES
from awr.errors import InvalidInput, NotFound, SourceStale, Unsupported
from awr.operations.project import StatusRequest, StatusResult, status
from awr.operations.session import EndRequest, StartRequest, end, start
from awr.project import Project
from tests.support.projects import LEDGER, Clock, begin_session, make_project, revision

View = Literal["action", "summary", "full"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    return make_project(tmp_path / "project", clock=clock)


def look(project: Project, view: View = "action", *, cached: bool = False) -> StatusResult:
    return status(project, StatusRequest(view=view, cached=cached))


def queues(project: Project) -> dict[str, list[str]]:
    found = look(project).queues
    assert isinstance(found, dict)
    return {name: [entry.external_key for entry in queue.entries] for name, queue in found.items()}


def ledger_of(*statuses: str) -> str:
    return "work_items:\n" + "".join(
        f"  - id: w{number}\n    title: W\n    status: {status}\n" for number, status in enumerate(statuses)
    )


@pytest.mark.parametrize("view", ["action", "summary", "full"])
def test_every_view_says_which_project_at_which_revision(project: Project, view: View) -> None:
    result = look(project, view)
    with project.journal.read() as reader:
        assert result.project_id == reader.project_id
    assert (result.project_revision, result.view, result.branch_id) == (2, view, None)
    assert (result.counts, result.total) == ({"planned": 2, "completed": 1}, 3)
    assert (result.stale_sources, result.active_sessions) == (0, 0)
    assert (result.freshness_basis, result.source_refresh_performed) == ("source_refresh", True)


def test_each_view_has_its_own_fields_and_no_others(project: Project) -> None:
    shown = {view: set(msgspec.to_builtins(look(project, view))) for view in ("action", "summary", "full")}
    assert shown["action"] - shown["summary"] == {
        *("queues", "guidance", "history", "active_claims", "pending_operations", "omissions")
    }
    assert shown["full"] - shown["summary"] == {
        *("project", "current", "current_total", "ready_count", "blocked_count", "next_action", "suggested_work"),
        "organization",
    }
    assert shown["summary"] <= shown["action"] & shown["full"]


def test_work_stands_in_the_queue_that_its_status_and_its_dependencies_say(project: Project) -> None:
    assert queues(project) == {"current": [], "ready": ["parse"], "waiting": ["report"], "blocked": []}


def test_claimed_work_is_current_until_the_claim_lapses(project: Project, clock: Clock) -> None:
    request = StartRequest(
        agent="a", provider="p", model="m", work="parse", claim=True, ttl_ms=10, expected_revision=2
    )
    start(project, request)
    assert queues(project)["current"] == ["parse"]
    clock.now += 10
    assert queues(project)["current"] == []
    assert queues(project)["ready"] == ["parse"]


def test_every_status_has_its_queue(tmp_path: Path) -> None:
    statuses = ("claimed", "in_progress", "blocked", "ready", "planned", "draft", "odd", "completed", "cancelled")
    project = make_project(tmp_path / "p", ledger=ledger_of(*statuses))
    assert queues(project) == {
        "current": ["w0", "w1"],
        "ready": ["w3", "w4"],
        "waiting": ["w5", "w6"],
        "blocked": ["w2"],
    }
    assert look(project).counts["unknown"] == 1


def test_a_queue_has_five_entries_and_the_exact_total(tmp_path: Path) -> None:
    found = look(make_project(tmp_path / "p", ledger=ledger_of(*["ready"] * 12))).queues
    assert isinstance(found, dict)
    assert (len(found["ready"].entries), found["ready"].total) == (5, 12)


def test_archived_work_is_not_counted(tmp_path: Path) -> None:
    ledger = LEDGER.replace("title: Release", "title: Release\n    archived: true")
    assert look(make_project(tmp_path / "p", ledger=ledger)).total == 2


@pytest.mark.parametrize(
    ("ledger", "when"),
    [
        (ledger_of("in_progress"), "1 work item is under way."),
        (ledger_of("in_progress", "claimed"), "2 work items are under way."),
        (LEDGER, "Nothing is under way and 1 work item is ready."),
        (ledger_of("completed"), "No work is under way and none is ready."),
        ("work_items: []\n", "No work is under way and none is ready."),
    ],
)
def test_the_card_says_how_it_stands_in_four_short_texts(tmp_path: Path, ledger: str, when: str) -> None:
    card = look(make_project(tmp_path / "p", ledger=ledger)).guidance
    encoded = msgspec.json.encode(card)
    assert msgspec.json.decode(encoded)["when"] == when
    assert set(msgspec.json.decode(encoded)) == {"when", "basis", "next_action", "recheck"}
    assert len(encoded) <= MAX_CARD_BYTES


def test_the_full_view_suggests_what_is_under_way_before_what_is_ready(tmp_path: Path) -> None:
    ledger = LEDGER.replace("status: planned\n    depends_on: [parse]", "status: in_progress\n    next_action: Go on")
    result = look(make_project(tmp_path / "p", ledger=ledger), "full")
    assert (result.suggested_work, result.next_action) == ("report", "Go on")
    assert (result.current_total, result.ready_count, result.blocked_count) == (1, 1, 0)
    assert result.project == {"name": "demo", "external_key": None}


def test_a_project_without_work_suggests_nothing(tmp_path: Path) -> None:
    result = look(make_project(tmp_path / "p", ledger="work_items: []\n"), "full")
    assert (result.suggested_work, result.next_action, result.total) == (None, None, 0)


def test_active_sessions_are_counted(project: Project) -> None:
    first = begin_session(project)
    begin_session(project, work=None)
    assert look(project).active_sessions == 2
    end(project, EndRequest(session=first, expected_revision=revision(project)))
    assert look(project).active_sessions == 1


def test_an_edit_is_seen_at_once_and_costs_one_revision(project: Project) -> None:
    path = project.root / "work-ledger.yaml"
    path.write_text(path.read_text().replace("status: completed", "status: blocked"))
    cached = look(project, cached=True)
    assert (cached.project_revision, cached.counts["completed"], cached.stale_sources) == (2, 1, 0)
    assert (cached.freshness_basis, cached.source_refresh_performed) == ("last_recorded_source_state", False)
    assert queues(project)["blocked"] == ["release"]
    assert revision(project) == 3
    look(project)
    assert revision(project) == 3


@pytest.mark.parametrize("view", ["action", "summary", "full"])
def test_a_stale_source_is_an_error_and_a_cached_answer_counts_it(project: Project, view: View) -> None:
    (project.root / "work-ledger.yaml").write_text("work_items: [")
    for _ in range(2):
        with pytest.raises(SourceStale):
            look(project, view)
    result = look(project, view, cached=True)
    assert (result.stale_sources, result.total, result.project_revision) == (1, 3, 3)


def test_work_of_a_stale_source_is_not_called_ready(project: Project) -> None:
    (project.root / "work-ledger.yaml").unlink()
    with pytest.raises(SourceStale):
        look(project)
    found = look(project, cached=True).queues
    assert isinstance(found, dict)
    assert found["ready"].total == 0


def test_another_branch_is_unsupported(project: Project) -> None:
    with pytest.raises(Unsupported):
        status(project, StatusRequest(branch="feature"))
    assert status(project, StatusRequest(branch="main")).branch_id is None


SCOPED = """\
goals:
  - {id: g1, title: One}
  - {id: g2, title: Two}
milestones:
  - {id: m1, title: First}
work_items:
  - {id: a, title: A, status: ready, goal: g1, milestone: m1}
  - {id: b, title: B, status: ready, goal: g1, priority: high}
  - {id: c, title: C, status: completed, milestone: m1}
  - {id: d, title: D, status: cancelled}
  - {id: e, title: E, status: completed, archived: true}
"""


def scoped(project: Project, **scope: object) -> list[str]:
    found = status(project, StatusRequest(**scope)).queues  # type: ignore[arg-type]
    assert isinstance(found, dict)
    return [entry.external_key for entry in found["ready"].entries]


def test_queues_are_in_the_order_of_ready_work(tmp_path: Path) -> None:
    assert scoped(make_project(tmp_path / "p", ledger=SCOPED)) == ["b", "a"]


def test_scopes_narrow_each_other_and_work_adds_up(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", ledger=SCOPED)
    assert scoped(project, work=("a", "b")) == ["b", "a"]
    assert scoped(project, goal="g1") == ["b", "a"]
    assert scoped(project, milestone="m1") == ["a"]
    assert scoped(project, goal="g1", milestone="m1", work=("b",)) == []
    assert scoped(project, goal="g2") == []
    result = status(project, StatusRequest(milestone="m1", view="summary"))
    assert (result.counts, result.scope) == ({"ready": 1, "completed": 1}, {"milestone": "m1"})


@pytest.mark.parametrize("scope", [{"work": ("zebra",)}, {"goal": "zebra"}, {"milestone": "zebra"}])
def test_a_scope_that_names_nothing_is_not_found(project: Project, scope: dict[str, object]) -> None:
    with pytest.raises(NotFound) as raised:
        scoped(project, **scope)
    assert "zebra" not in str(raised.value.report())


def test_the_full_view_takes_no_scope(project: Project) -> None:
    with pytest.raises(InvalidInput):
        status(project, StatusRequest(view="full", goal="goal-1"))


def test_what_is_over_is_counted_as_history(tmp_path: Path) -> None:
    result = look(make_project(tmp_path / "p", ledger=SCOPED))
    assert result.history == {"completed": 1, "cancelled": 1, "archived": 1}


def test_claims_that_hold_are_shown_until_they_lapse(project: Project, clock: Clock) -> None:
    request = StartRequest(
        agent="me", provider="p", model="m", work="parse", claim=True, ttl_ms=10, expected_revision=2
    )
    session = start(project, request).session.id
    held = look(project).active_claims
    assert not isinstance(held, msgspec.UnsetType)
    assert held.total == 1
    assert (held.entries[0].work_item_key, held.entries[0].agent_id, held.entries[0].session_id) == (
        *("parse", "me"),
        session,
    )
    assert held.entries[0].expires_at == clock.now + 10
    clock.now += 10
    after = look(project).active_claims
    assert not isinstance(after, msgspec.UnsetType)
    assert (after.entries, after.total) == ((), 0)


def unfinished(project: Project, session: str, number: int) -> None:
    with project.journal.write() as writer:
        writer.append(
            "checkpoint.started",
            {"save_schema": 1, "base_project_revision": number, "draft": {}},
            summary="Checkpoint started",
            session_id=session,
        )


def test_what_began_and_has_no_end_is_pending_with_the_work_it_belongs_to(project: Project) -> None:
    session = begin_session(project)
    for number in range(7):
        unfinished(project, session, number)
    result = look(project)
    pending = result.pending_operations
    assert not isinstance(pending, msgspec.UnsetType)
    assert (len(pending.entries), pending.total) == (5, 7)
    first = pending.entries[0]
    assert (first.kind, first.state, first.session_id, first.work_item_key) == (
        *("checkpoint", "started"),
        session,
        "parse",
    )
    other = status(project, StatusRequest(work=("report",))).pending_operations
    assert not isinstance(other, msgspec.UnsetType)
    assert other.total == 0


def test_what_a_view_leaves_out_is_listed_with_its_number(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", ledger=ledger_of(*["ready"] * 12, *["blocked"] * 5))
    assert list(msgspec.to_builtins(look(project).omissions)) == [
        {"kind": "queue", "reference": "ready", "count": 7, "reason": "five_entries_at_most"}
    ]
    assert look(make_project(tmp_path / "q")).omissions == ()
