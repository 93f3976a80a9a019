"""What a workflow does without the capabilities that an older build lacks: decided before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awr.client import Workflow
from awr.client.negotiation import REQUIRED, Offer, negotiated
from awr.client.transport import Answer
from awr.errors import WorkflowRefused
from awr.project import Project
from tests.support.projects import revision
from tests.support.workflows import (
    LABELS,
    begun,
    completion,
    evidence_draft,
    observation,
    older_build,
    pinned,
    started,
    state_of,
    work_observation,
)


def on_older_build(folder: Path, *lacking: str) -> tuple[Project, Workflow, Path]:
    program = older_build(folder / "awr", lacking=lacking)
    project, workflow = begun(folder, transport=pinned(program))
    return project, workflow, program.with_suffix(".log")


def asked(log: Path, words: str) -> list[str]:
    return [line for line in log.read_text().splitlines() if line.startswith(words)]


def test_without_prepared_work_the_context_is_compiled_and_nothing_is_observed(tmp_path: Path) -> None:
    _, workflow, log = on_older_build(tmp_path, "workflow.prepare", "work.management", "workflow.action_guidance")
    found = workflow.prepare(work_observation(), goals=["goal-1"])
    assert (found["workflow_path"], found["management_available"]) == ("legacy", False)
    assert found["observation_recorded"] is False
    workflow.acknowledge(found["context"]["work_context"]["context_hash"])
    workflow.progress("Begun", "Go on")
    assert asked(log, "work prepare") == asked(log, "work manage") == []
    assert "--goal=goal-1" in asked(log, "context compile")[0]


@pytest.mark.parametrize(
    ("lacking", "option"),
    [
        ((), "--response-view=action"),
        (("workflow.action_guidance",), "--response-view=summary"),
        (("workflow.action_guidance", "workflow.response_summary"), None),
    ],
)
def test_the_nearest_view_that_there_is_is_asked_for(
    tmp_path: Path, lacking: tuple[str, ...], option: str | None
) -> None:
    _, workflow, log = on_older_build(tmp_path, *lacking)
    found = workflow.prepare()
    assert found["workflow_path"] == "prepare"
    assert ("guidance" in found) == (not lacking)
    [line] = asked(log, "work prepare")
    assert [word for word in line.split() if "view" in word] == ([option] if option else [])


def test_an_observation_is_recorded_once_in_every_view(tmp_path: Path) -> None:
    _, workflow, log = on_older_build(tmp_path, "workflow.action_guidance")
    assert workflow.prepare(work_observation())["observation_recorded"] is True
    assert (len(asked(log, "work prepare")), len(asked(log, "work manage"))) == (1, 1)


def test_without_management_an_observation_is_left_out(tmp_path: Path) -> None:
    _, workflow, log = on_older_build(tmp_path, "work.management")
    found = workflow.prepare(work_observation())
    assert (found["management_available"], found["observation_recorded"]) == (False, False)
    assert asked(log, "work manage") == []


def test_without_compactions_an_observation_is_refused_before_any_call(tmp_path: Path) -> None:
    project, workflow, log = on_older_build(tmp_path, "client.compaction")
    before = log.read_text()
    calls: list[Any] = [
        lambda: workflow.observe_compaction(observation()),
        lambda: workflow.defer_compaction("E"),
        workflow.compaction,
    ]
    for call in calls:
        with pytest.raises(ValueError, match="lacks what the call needs"):
            call()
    assert log.read_text() == before
    assert state_of(project)["pending"] is None


def test_a_summary_of_progress_is_asked_for_only_where_it_is_offered_for_progress(tmp_path: Path) -> None:
    _, workflow, log = on_older_build(tmp_path)
    workflow.acknowledge(workflow.prepare()["context"]["work_context"]["context_hash"])
    workflow.progress("Begun", "Go on", response_view="summary")
    assert "view" not in asked(log, "work progress")[0]


@pytest.mark.parametrize("missing", REQUIRED)
def test_a_build_that_lacks_a_requirement_is_refused_before_a_state_is_made(tmp_path: Path, missing: str) -> None:
    program = older_build(tmp_path / "awr", lacking=(missing,))
    with pytest.raises(ValueError, match="cannot carry a workflow") as refused:
        started(tmp_path, transport=pinned(program))
    report: Any = refused.value.details["report"]  # type: ignore[attr-defined]
    assert report["code"] == "CapabilityUnavailable"
    assert not (tmp_path / "state" / "workflow.json").exists()
    assert len(program.with_suffix(".log").read_text().splitlines()) == 1


def test_the_oldest_build_that_will_do_carries_a_session_to_its_end(tmp_path: Path) -> None:
    lacking = (
        "workflow.prepare",
        "workflow.action_guidance",
        "workflow.response_summary",
        "work.management",
        "client.compaction",
    )
    program = older_build(tmp_path / "awr", lacking=lacking, stated="0.0.9")
    project, workflow = started(tmp_path, transport=pinned(program, stated="0.0.9"))
    workflow.begin("parse", *LABELS)
    given = workflow.prepare()["context"]["work_context"]["context_hash"]
    workflow.acknowledge(given)
    workflow.progress("Begun", "Go on")
    workflow.checkpoint(given, "Half way", "Go on")
    workflow.evidence(evidence_draft(project))
    workflow.finish(completion(), "Done")
    assert state_of(project)["last_revision"] == revision(project)


def offered(**changes: Any) -> Answer:
    value: dict[str, Any] = {
        "protocol": {"name": "awr.host", "version": 1},
        "program": {"name": "awr", "version": "1.0", "os": "x"},
        "capabilities": [{"id": name, "available": True, "commands": [], "limitations": []} for name in REQUIRED],
        "more": {},
        **changes,
    }
    return Answer(known=True, value=value, report=None, stdout_sha256="")


def test_an_offer_is_what_is_available() -> None:
    more = {"id": "x", "available": True, "commands": ["work progress"]}
    off = {"id": "y", "available": False}
    value = offered().value
    assert value is not None
    offer = negotiated(offered(capabilities=[*value["capabilities"], more, off]), version="1.0")
    assert (offer.has("x"), offer.has("y"), offer.has_for("x", "work progress")) == (True, False, True)
    assert (offer.has_for("x", "work show"), offer.has_for("y", "work show")) == (False, False)
    assert Offer({}).view("action") == "full"


@pytest.mark.parametrize(
    "answer",
    [
        offered(protocol={"name": "awr.host", "version": 2}),
        offered(program={"name": "awr", "version": "1.0.0"}),
        offered(capabilities=[]),
        offered(capabilities="all"),
        offered(capabilities=[{"id": name, "available": False} for name in REQUIRED]),
        Answer(known=True, value=None, report=None, stdout_sha256=""),
        Answer(known=False, value=None, report=None, stdout_sha256=""),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(answer: Answer) -> None:
    with pytest.raises(WorkflowRefused, match="cannot carry a workflow"):
        negotiated(answer, version="1.0")
