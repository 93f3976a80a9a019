"""New work begins as a draft and is planned once it is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awr.errors import (
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    RuleViolation,
    SourceConflict,
)
from awr.operations.creation import ActivateRequest, CreateRequest, activate, create
from awr.operations.journal import RebuildRequest, rebuild
from awr.operations.mutation import ProposalReport
from awr.operations.session import EndRequest, end
from awr.operations.work import ShowRequest, show
from awr.project import Project
from awr.sources.index import refresh
from tests.support.projects import LEDGER, MANIFEST, begin_session, make_project, revision

MINIMAL = MANIFEST.replace('name = "demo"', 'name = "demo"\ncontext_profile = "minimal"')


@pytest.fixture
def project(tmp_path: Path) -> Project:
    found = make_project(tmp_path / "p")
    (found.folder / "project.toml").write_text(MINIMAL)
    return found


def new(project: Project, **changes: Any) -> ProposalReport:
    stated: dict[str, Any] = {
        "work": "csv",
        "title": "Read CSV",
        "goal": "goal-1",
        "next_action": "Find samples",
        "acceptance": ("Samples read", "Errors named"),
        "depends_on": ("parse",),
        "expected_revision": revision(project),
    }
    return create(project, CreateRequest(**{**stated, **changes}))


def activated(project: Project, **changes: Any) -> ProposalReport:
    return activate(project, ActivateRequest(work="csv", expected_revision=revision(project), **changes))


def test_a_draft_is_written_behind_the_others_and_gets_a_lasting_id(project: Project) -> None:
    report = new(project)
    assert (report.write_outcome, report.proposal.mutation_type) == ("applied", "work.create")
    assert (project.root / "work-ledger.yaml").read_text() == LEDGER + (
        "  - id: csv\n    title: Read CSV\n    status: draft\n    goal: goal-1\n    depends_on:\n      - parse\n"
        "    next_action: Find samples\n    acceptance:\n      - Samples read\n      - Errors named\n"
    )
    shown = show(project, ShowRequest(work="csv"))
    assert report.proposal.work_item_id == shown.work.id
    assert shown.work.status == "draft"
    with project.journal.read() as reader:
        rows = reader.database.rows("SELECT event_type FROM events WHERE project_revision > 2")
    assert [row["event_type"] for row in rows] == [
        "proposal.created",
        "proposal.ready",
        "proposal.approved",
        "proposal.apply_started",
        "source.projected",
        "proposal.applied",
    ]
    assert set(rebuild(project, RebuildRequest()).rows_corrected.values()) == {0}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"work": "parse"}, SourceConflict),
        ({"goal": "none"}, NotFound),
        ({"milestone": "none"}, NotFound),
        ({"depends_on": ("none",)}, NotFound),
        ({"source": "none.yaml"}, NotFound),
        ({"work": " "}, InvalidInput),
        ({"work": "a\nb"}, InvalidInput),
        ({"title": ""}, InvalidInput),
        ({"acceptance": ("a", "a")}, InvalidInput),
        ({"acceptance": ("",)}, InvalidInput),
        ({"next_action": "x" * 4097}, InvalidInput),
        ({"expected_revision": 1}, RevisionConflict),
        ({"title": "ghp_" + "a1B2" * 9}, RuleViolation),
    ],
)
def test_a_draft_that_breaks_a_rule_is_refused_and_nothing_is_written(
    project: Project, wrong: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        new(project, **wrong)
    assert (project.root / "work-ledger.yaml").read_text() == LEDGER


def test_of_several_ledgers_the_one_to_write_to_is_named(project: Project) -> None:
    second = MANIFEST.partition("[[sources]]")[2].replace("work-ledger.yaml", "more.yaml")
    (project.folder / "project.toml").write_text(MINIMAL + "\n[[sources]]" + second)
    (project.root / "more.yaml").write_text("work_items: []\n")
    assert refresh(project).ok
    with pytest.raises(InvalidInput):
        new(project)
    new(project, source="more.yaml")
    assert "id: csv" in (project.root / "more.yaml").read_text()
    assert (project.root / "work-ledger.yaml").read_text() == LEDGER


def test_a_complete_draft_becomes_planned(project: Project) -> None:
    new(project)
    report = activated(project)
    assert report.event is not None
    assert report.event.event_type == "work.draft_activated"
    assert show(project, ShowRequest(work="csv")).work.status == "planned"
    with pytest.raises(InvalidTransition):
        activated(project)


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        ({"acceptance": ()}, "acceptance"),
        ({"next_action": None}, "a next action"),
        ({"goal": None}, "a link to an active goal of a fresh primary source"),
    ],
)
def test_a_draft_that_lacks_something_is_not_activated_and_the_gap_is_named(
    project: Project, lacking: dict[str, Any], named: str
) -> None:
    new(project, **lacking)
    page = (project.root / "work-ledger.yaml").read_text()
    with pytest.raises(InvalidTransition) as caught:
        activated(project)
    assert caught.value.details["missing"] == [named]
    assert (project.root / "work-ledger.yaml").read_text() == page


@pytest.mark.parametrize(("status", "serves"), [("approved", True), ("Confirmed", True), ("done", False)])
def test_the_goal_has_to_be_under_way(tmp_path: Path, status: str, serves: bool) -> None:
    project = make_project(tmp_path / "p", ledger=LEDGER.replace("status: active", f"status: {status}"))
    (project.folder / "project.toml").write_text(MINIMAL)
    new(project)
    if serves:
        assert activated(project).proposal.status == "applied"
        return
    with pytest.raises(InvalidTransition):
        activated(project)


def test_the_standard_profile_also_asks_for_rules_and_a_milestone(project: Project) -> None:
    (project.folder / "project.toml").write_text(MANIFEST)
    new(project)
    with pytest.raises(InvalidTransition) as caught:
        activated(project)
    assert caught.value.details["missing"] == ["a fresh source of rules", "a milestone"]
    rules = '\n[[sources]]\ndomain = "rules"\nrole = "primary"\npath = "RULES.md"\nadapter = "markdown-rules-v1"\n'
    (project.folder / "project.toml").write_text(MANIFEST + rules)
    (project.root / "RULES.md").write_text("# Keep it small {#small severity=hard scope=project}\n\nNo giants.\n")
    page = (project.root / "work-ledger.yaml").read_text()
    page = page.replace("goal: goal-1\n    depends_on", "goal: goal-1\n    milestone: m1\n    depends_on")
    (project.root / "work-ledger.yaml").write_text(page + "milestones:\n  - id: m1\n    title: First\n")
    assert refresh(project).ok
    assert activated(project).proposal.status == "applied"


def test_a_session_that_is_named_has_to_be_active(project: Project) -> None:
    session = begin_session(project)
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    with pytest.raises(InvalidTransition):
        new(project, session=session)
    new(project)
    with pytest.raises(InvalidTransition):
        activated(project, session=session)
    with pytest.raises(NotFound):
        activated(project, session="NONE")
