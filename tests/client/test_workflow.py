"""The whole loop of a host, through both transports, and what is refused in it before anything is called."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from awr.client import Workflow
from awr.errors import CommandFailed, InvalidInput, NotFound, RuleViolation, WorkflowRefused
from awr.operations.session import ListRequest, listing
from tests.support.projects import begin_session, revision
from tests.support.workflows import (
    LABELS,
    acknowledged,
    begun,
    completion,
    evidence_draft,
    make_workflow_project,
    observation,
    program,
    started,
    state_of,
    work_observation,
    workflow_on,
)

TRANSPORTS = ("in_process", "executable")


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_a_session_goes_from_its_beginning_to_completed_work(tmp_path: Path, kind: str) -> None:
    project, workflow = started(tmp_path, transport=program(kind, tmp_path))
    session = workflow.begin("parse", *LABELS)["session"]["id"]
    context_hash = acknowledged(workflow)
    workflow.progress("Begun", "Write the lexer")
    workflow.checkpoint(context_hash, "Grammar agreed", "Write the lexer")
    workflow.evidence(evidence_draft(project))
    done = workflow.finish(completion(), "All samples parse")
    assert done["completed"]["proposal"]["status"] == "applied"
    assert done["ended"]["session"]["status"] == "ended"
    assert "status: completed" in (project.root / "work-ledger.yaml").read_text()
    state = state_of(project)
    assert (state["phase"], state["session"], state["pending"]) == ("ended", session, None)
    assert [one["operation"] for one in state["history"]] == [
        "session.start",
        "transition.progress",
        "session.checkpoint",
        "evidence.add",
        "transition.complete",
        "session.end",
    ]
    assert {one["outcome"] for one in state["history"]} == {"succeeded"}
    assert state["last_revision"] == revision(project) == done["project_revision"]


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_the_published_example_of_a_host_runs_as_written(tmp_path: Path, kind: str) -> None:
    _, workflow = begun(tmp_path, transport=program(kind, tmp_path))
    observation_ = observation()
    # Invoke after the host reports a completed native compaction, not on a round timer.
    result = workflow.observe_compaction(
        observation_,
        policy={
            "post_compaction_threshold_percent": 50,
        },
    )
    assert result["state"] == "handoff_candidate"
    assert "ask before opening" in result["guidance"]["next_action"]
    # Once the user has postponed, stop repeating this observation's suggestion:
    workflow.defer_compaction(result["observation_event_id"])
    # For receipts or recovery, query without replaying the operation:
    details = workflow.compaction(include_observation=True)
    assert details["state"] == "deferred"
    assert details["observation"]["compaction_id"] == "native-compaction-1"


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_preparing_with_an_observation_records_it_and_prepares_again(tmp_path: Path, kind: str) -> None:
    project, workflow = begun(tmp_path, transport=program(kind, tmp_path))
    first = workflow.prepare()
    assert "record known observations" in first["guidance"]["next_action"]
    assert (first["workflow_path"], first["management_available"]) == ("prepare", True)
    assert first["observation_recorded"] is False
    second = workflow.prepare(work_observation())
    assert second["observation_recorded"] is True
    assert "Consume the rendered context" in second["guidance"]["next_action"]
    assert second["project_revision"] == revision(project) == state_of(project)["last_revision"]
    assert second["management_record"]["assessment"]["decision"]["mode"] == "lightweight"
    assert [one["operation"] for one in state_of(project)["history"]] == ["session.start", "work.manage"]
    third = workflow.prepare(response_view="summary")
    assert third["observation_recorded"] is False
    assert third["response_view"]["view"] == "summary"
    assert "response_view" not in workflow.prepare(response_view="full")


def test_a_record_that_no_longer_holds_is_written_again_from_the_observation_before(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    workflow.prepare(work_observation())
    ledger = project.root / "work-ledger.yaml"
    ledger.write_text(ledger.read_text().replace("title: Parse input", "title: Parse all input"))
    found = workflow.prepare()
    assert found["observation_recorded"] is True
    assert found["management_record"]["assessment"]["observation"]["note"] == "one outcome in one module"
    assert found["management_record"]["assessment"]["decision"]["mode"] == "continuous"


def test_the_context_in_the_full_view_is_bound_although_a_record_came_after_it(tmp_path: Path) -> None:
    _, workflow = begun(tmp_path)
    found = workflow.prepare(work_observation(), response_view="full")
    assert found["observation_recorded"] is True
    assert workflow.acknowledge(found["context"]["work_context"]["context_hash"])["acknowledged"] is True


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_adoption_keeps_the_session_and_writes_nothing(tmp_path: Path, kind: str) -> None:
    project = make_workflow_project(tmp_path / "p")
    session = begin_session(project, claim=True)
    before = revision(project)
    workflow = workflow_on(project, transport=program(kind, tmp_path))
    assert workflow.adopt(session, "parse")["session"]["id"] == session
    assert revision(project) == before
    assert len(listing(project, ListRequest()).sessions) == 1
    assert (state_of(project)["session"], state_of(project)["phase"]) == (session, "active")
    workflow.checkpoint(acknowledged(workflow), "Taken over", "Go on")
    assert len(listing(project, ListRequest()).sessions) == 1


def test_a_session_of_other_work_or_one_that_ended_is_not_adopted(tmp_path: Path) -> None:
    project = make_workflow_project(tmp_path / "p")
    session = begin_session(project, work="report")
    workflow = workflow_on(project)
    with pytest.raises(WorkflowRefused, match="cannot be adopted"):
        workflow.adopt(session, "parse")
    other = workflow_on(project, name="other")
    other.adopt(session, "report")
    with pytest.raises(WorkflowRefused, match="another phase"):
        other.adopt(session, "report")
    project_2, ended = begun(tmp_path / "second")
    ended.evidence(evidence_draft(project_2))
    acknowledged(ended)
    ended.progress("Begun", "Go on")
    ended.finish(completion(), "Done")
    with pytest.raises(WorkflowRefused, match="cannot be adopted"):
        workflow_on(project_2, name="other").adopt(state_of(project_2)["session"], "parse")


def test_what_needs_an_acknowledged_context_is_refused_before_any_call(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    before = revision(project)
    calls: list[Any] = [
        lambda: workflow.checkpoint("ab" * 32, "d", "n"),
        lambda: workflow.progress("r", "n"),
        lambda: workflow.acknowledge("ab" * 32),
    ]
    for call in calls:
        with pytest.raises(WorkflowRefused, match="no context has been delivered"):
            call()
    given = workflow.context()["work_context"]["context_hash"]
    for call in (lambda: workflow.checkpoint(given, "d", "n"), lambda: workflow.progress("r", "n")):
        with pytest.raises(ValueError, match="not acknowledged"):
            call()
    with pytest.raises(WorkflowRefused, match="not that of the delivered context"):
        workflow.acknowledge("ab" * 32)
    workflow.acknowledge(given)
    with pytest.raises(WorkflowRefused, match="not that of the delivered context"):
        workflow.checkpoint("ab" * 32, "d", "n")
    assert (revision(project), state_of(project)["pending"]) == (before, None)


@pytest.mark.parametrize("fetch", [lambda flow: flow.context(), lambda flow: flow.prepare()])
def test_fetching_the_context_again_resets_the_acknowledgement(tmp_path: Path, fetch: Any) -> None:
    _, workflow = begun(tmp_path)
    acknowledged(workflow)
    fetch(workflow)
    with pytest.raises(WorkflowRefused, match="not acknowledged"):
        workflow.progress("r", "n")


def test_a_receipt_that_was_changed_is_found_out(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    given = acknowledged(workflow)
    receipt = project.root.parent / "state" / state_of(project)["context"]["receipts"] / "stdout"
    kept = receipt.read_bytes()
    changes: list[Any] = [lambda: receipt.write_bytes(kept + b" "), receipt.unlink]
    calls: list[Any] = [
        lambda: workflow.acknowledge(given),
        lambda: workflow.checkpoint(given, "d", "n"),
        lambda: workflow.progress("r", "n"),
    ]
    for change in changes:
        change()
        for call in calls:
            with pytest.raises(ValueError, match="is not what AWR answered"):
                call()
    receipt.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkflowRefused, match="not what the workflow wrote"):
        workflow.acknowledge(given)
    receipt.unlink()
    receipt.write_bytes(kept)
    workflow.checkpoint(given, "d", "n")


def test_an_incomplete_context_is_not_given_out(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    acknowledged(workflow)
    ledger = project.root / "work-ledger.yaml"
    kept = ledger.read_text()
    ledger.write_text(kept.replace("    next_action: Write the grammar\n", ""))
    for fetch in (workflow.context, workflow.prepare):
        with pytest.raises(CommandFailed) as failed:
            fetch()
        assert failed.value.details["report"]["code"] == "ContextIncomplete"  # type: ignore[index]
        assert failed.value.value is not None
        assert failed.value.value["ok"] is False
    with pytest.raises(WorkflowRefused, match="no context has been delivered"):
        workflow.progress("r", "n")
    ledger.write_text(kept)
    acknowledged(workflow)


def test_values_that_could_never_be_taken_leave_nothing_pending(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    before = state_of(project)
    refused: list[tuple[type[Exception], Any]] = [
        (InvalidInput, lambda: workflow.observe_compaction({"compaction_id": "x"})),
        (InvalidInput, lambda: workflow.observe_compaction({**observation(), "more": 1})),
        (InvalidInput, lambda: workflow.observe_compaction({**observation(), "duration_ms": float("nan")})),
        (InvalidInput, lambda: workflow.observe_compaction(observation(), {"threshold": 50})),
        (InvalidInput, lambda: workflow.evidence({"external_key": "k", "project": "/elsewhere"})),
        (InvalidInput, lambda: workflow.evidence(["no object"])),  # type: ignore[arg-type]
        (InvalidInput, lambda: workflow.finish({"version": 1}, "r")),
        (InvalidInput, lambda: workflow.prepare({"note": 5})),
        (WorkflowRefused, lambda: workflow.evidence({**evidence_draft(project), "work": "report"})),
        (WorkflowRefused, lambda: workflow.begin("parse", *LABELS)),
        (RuleViolation, lambda: workflow.evidence({**evidence_draft(project), "summary": "ghp_" + "a1" * 12})),
    ]
    for kind, call in refused:
        with pytest.raises(kind):
            call()
    assert {**state_of(project), "context": None} == {**before, "context": None}
    files = [path for path in (project.root.parent / "state").rglob("*") if path.is_file()]
    assert not [path for path in files if b"ghp_" in path.read_bytes()]


def test_a_text_that_looks_like_an_option_stays_a_text(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path, transport=program("executable", tmp_path))
    given = acknowledged(workflow)
    saved = workflow.checkpoint(given, "--project /elsewhere", "-h")
    assert saved["checkpoint"]["digest"] == "--project /elsewhere"
    workflow.evidence(evidence_draft(project, key="--help"))


def test_another_project_is_not_worked_on(tmp_path: Path) -> None:
    project = make_workflow_project(tmp_path / "p")
    state = tmp_path / "state" / "w.json"
    with pytest.raises(WorkflowRefused, match="another project"):
        Workflow(project.root, project_id="01M8QM5E0CSE8JMKVZ2NN4BRX3", state=state)
    assert not state.exists()
    with pytest.raises(NotFound):
        Workflow(tmp_path / "nothing", project_id="x", state=state)
    with pytest.raises(CommandFailed):
        Workflow(tmp_path, project_id="x", state=state)


def test_a_state_of_another_version_or_program_is_not_gone_on_with(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    path = project.root.parent / "state" / "workflow.json"
    kept = state_of(project)
    path.write_text(json.dumps({**kept, "binding": {**kept["binding"], "version": "0.0.1"}}))
    with pytest.raises(ValueError, match="belongs to another AWR"):
        workflow.context()
    with pytest.raises(ValueError, match="belongs to another AWR"):
        workflow_on(project)
    path.write_text(json.dumps(kept))
    with pytest.raises(WorkflowRefused, match="belongs to another AWR"):
        workflow_on(project, transport=program("executable", tmp_path))
    workflow.context()


@pytest.mark.parametrize("text", ["", "{}", "[1]", "no json", '{"version": 2}'])
def test_a_state_file_of_another_kind_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    project, workflow = begun(tmp_path)
    path = project.root.parent / "state" / "workflow.json"
    path.write_text(text)
    with pytest.raises(WorkflowRefused, match="not one that this workflow wrote"):
        workflow.context()
    assert path.read_text() == text
    path.unlink()
    with pytest.raises(WorkflowRefused, match="gone"):
        workflow.context()
    (tmp_path / "elsewhere").write_text("{}")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkflowRefused, match="not what the workflow wrote"):
        workflow.context()


def test_everything_that_is_kept_is_for_its_owner_alone(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path, transport=program("executable", tmp_path))
    acknowledged(workflow)
    workflow.observe_compaction(observation())
    for path in [project.root.parent / "state", *(project.root.parent / "state").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("how", ["mode", "link", "file"])
def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path, how: str) -> None:
    project = make_workflow_project(tmp_path / "p")
    folder = tmp_path / "state"
    if how == "mode":
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
    elif how == "link":
        (tmp_path / "real").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "real")
    else:
        folder.write_text("")
    with pytest.raises(WorkflowRefused, match="not private"):
        workflow_on(project)
    assert not list((tmp_path / "real").glob("*"))


def test_an_ended_workflow_stays_ended_and_still_answers_about_compactions(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    workflow.observe_compaction(observation())
    acknowledged(workflow)
    workflow.progress("Begun", "Go on")
    workflow.evidence(evidence_draft(project))
    workflow.finish(completion(), "Done")
    for call in (
        workflow.context,
        workflow.prepare,
        lambda: workflow.observe_compaction(observation(2)),
        lambda: workflow.finish(completion(), "Done"),
    ):
        with pytest.raises(WorkflowRefused, match="another phase"):
            call()
    assert workflow.compaction()["state"] == "handoff_candidate"


def test_the_workflow_is_a_public_name_of_the_package() -> None:
    import awr
    import awr.client

    assert awr.Workflow is awr.client.Workflow is Workflow
    for module in (awr, awr.client):
        with pytest.raises(AttributeError):
            module.nothing  # noqa: B018
