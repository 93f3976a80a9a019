"""The loop of a host: its steps in order, over both transports, and what is left when an answer is lost."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awr.client import CallFailed, Workflow, WorkflowError
from awr.client.state import State
from awr.project import Project
from tests.client.conftest import Open
from tests.support.old_awr import stand_in
from tests.support.projects import begin_session, revision
from tests.support.tools import event_types

SHA = "a" * 40
OBSERVATION = {
    "compaction_id": "native-compaction-7",
    "sequence": 7,
    "observed_at": 1_789_500_000_000,
    "trigger": "automatic",
    "model": "host-model-id",
    "source": "host.telemetry.completed-compaction-7",
    "measurement_scope": "full_request",
    "measurement_basis": "host_reported",
    "before_tokens": 230_000,
    "after_tokens": 140_000,
    "context_window_tokens": 256_000,
}
COMPLETION = {"version": 1, "source_sha": SHA, "acceptance": [{"criterion": "It is done", "evidence": ["tests-1"]}]}
LABELS: dict[str, Any] = {"agent": "host", "provider": "p", "model": "m"}

both = pytest.mark.parametrize("over", ["in process", "executable"])


def draft(project: Project) -> dict[str, Any]:
    """Write a report and return the evidence that names it."""
    body = {
        "version": 1,
        "work_item": "parse",
        "source_sha": SHA,
        "command": "pytest",
        "scope": ["all"],
        "verified_at": 1,
        "checks": [{"name": "done", "passed": True, "details": "all", "criteria": ["It is done"]}],
    }
    data = json.dumps(body).encode()
    (project.root / "report.json").write_bytes(data)
    return {
        "external_key": "tests-1",
        "evidence_type": "test_report",
        "level": "locally_verified",
        "summary": "All tests pass",
        "locator": "report.json",
        "sha256": hashlib.sha256(data).hexdigest(),
        "source_sha": SHA,
        "command": "pytest",
        "scope": ["all"],
        "verified_at": 1,
    }


def begun(workflow: Workflow) -> str:
    """Begin, prepare and acknowledge. Return the hash."""
    workflow.begin("parse", **LABELS)
    found: str = workflow.prepare()["context"]["work_context"]["context_hash"]
    workflow.acknowledge(found)
    return found


@both
def test_a_whole_session_from_begin_to_finish(project: Project, open_workflow: Open, binary: Path, over: str) -> None:
    workflow = open_workflow(binary=binary if over == "executable" else None)
    context_hash = begun(workflow)
    assert set(workflow.prepare()["guidance"]) == {"when", "basis", "next_action", "recheck"}
    workflow.acknowledge(context_hash := workflow.context()["work_context"]["context_hash"])
    workflow.progress("Began", "Go on")
    workflow.evidence(draft(project))
    workflow.checkpoint(context_hash, "Half done", "Go on")
    finished = workflow.finish(COMPLETION, "All is done")
    assert finished["completed"]["proposal"]["status"] == "applied"
    assert finished["ended"]["session"]["status"] == "ended"
    state = workflow.state
    assert [one.operation for one in state.history] == [
        *("session.start", "transition.progress", "evidence.add", "session.checkpoint"),
        *("transition.complete", "session.end"),
    ]
    assert (state.phase, state.pending, state.last_revision) == ("ended", None, revision(project))
    assert "status: completed" in (project.root / "work-ledger.yaml").read_text().partition("id: parse")[2]


@both
def test_a_compaction_is_observed_inspected_and_deferred_as_the_contracts_example_does(
    open_workflow: Open, binary: Path, over: str
) -> None:
    workflow = open_workflow(binary=binary if over == "executable" else None)
    workflow.begin("parse", **LABELS)
    result = workflow.observe_compaction(OBSERVATION, policy={"post_compaction_threshold_percent": 50})
    assert result["guidance"]["next_action"]
    workflow.defer_compaction(result["observation_event_id"])
    details = workflow.compaction(include_observation=True)
    assert (details["state"], details["observation"]["after_tokens"]) == ("deferred", 140_000)


def test_a_new_loop_goes_on_where_the_state_file_says(open_workflow: Open) -> None:
    context_hash = begun(open_workflow())
    saved = open_workflow().checkpoint(context_hash, "Half done", "Go on")
    assert open_workflow().state.checkpoint == saved["checkpoint"]["id"]


def test_an_active_session_is_adopted_with_its_identity(project: Project, open_workflow: Open) -> None:
    session = begin_session(project, work="parse", claim=True)
    workflow = open_workflow()
    assert workflow.adopt(session, "parse")["session"]["id"] == session
    assert (workflow.state.session, workflow.state.phase) == (session, "active")
    before = revision(project)
    workflow.prepare()
    assert revision(project) == before


@pytest.mark.parametrize("wrong", ["ended", "other work"])
def test_nothing_else_is_adopted(project: Project, open_workflow: Open, wrong: str) -> None:
    session = begin_session(project, work="parse")
    if wrong == "ended":
        from awr.operations.session import EndRequest, end

        end(project, EndRequest(session=session, expected_revision=revision(project)))
    with pytest.raises(WorkflowError, match="only an active session"):
        open_workflow().adopt(session, "parse" if wrong == "ended" else "report")


def test_every_delivery_has_to_be_acknowledged_anew(open_workflow: Open) -> None:
    workflow = open_workflow()
    context_hash = begun(workflow)
    workflow.prepare()
    with pytest.raises(WorkflowError, match="not acknowledged"):
        workflow.checkpoint(context_hash, "Half done", "Go on")
    with pytest.raises(WorkflowError, match="not acknowledged"):
        workflow.progress("Began", "Go on")
    with pytest.raises(WorkflowError, match="not the hash"):
        workflow.acknowledge("0" * 64)


def test_a_tampered_receipt_is_found(open_workflow: Open, tmp_path: Path) -> None:
    workflow = open_workflow()
    context_hash = begun(workflow)
    for receipt in (tmp_path / "loop" / "receipts").iterdir():
        receipt.write_bytes(receipt.read_bytes() + b" ")
    with pytest.raises(ValueError, match="receipt"):
        workflow.checkpoint(context_hash, "Half done", "Go on")


def test_a_refused_write_stays_pending_until_it_is_inspected_and_reconciled(
    project: Project, open_workflow: Open
) -> None:
    workflow = open_workflow()
    context_hash = begun(workflow)
    with pytest.raises(CallFailed) as refused:
        workflow.progress("Began", "Go on", expected_revision=1)
    assert refused.value.known
    assert refused.value.report is not None
    assert refused.value.report["code"] == "RevisionConflict"
    before = revision(project)
    steps: tuple[Callable[[], Any], ...] = (
        lambda: workflow.progress("Began", "Go on"),
        lambda: workflow.checkpoint(context_hash, "Half done", "Go on"),
        workflow.prepare,
        lambda: workflow.acknowledge(context_hash),
        lambda: workflow.observe_compaction(OBSERVATION),
        lambda: workflow.finish(COMPLETION, "Done"),
        lambda: workflow.begin("parse", **LABELS),
    )
    for step in steps:
        with pytest.raises(WorkflowError, match="pending with outcome refused"):
            step()
    assert revision(project) == before
    assert workflow.compaction()["state"] == "measurement_missing"
    with pytest.raises(WorkflowError, match="inspect first"):
        workflow.reconcile("0" * 64, "Nothing was done")
    seen = workflow.inspect()
    with pytest.raises(WorkflowError, match="say why"):
        workflow.reconcile(seen["inspection_sha256"], " ")
    assert workflow.reconcile(seen["inspection_sha256"], "Nothing was done")["phase"] == "active"
    workflow.acknowledge(workflow.prepare()["context"]["work_context"]["context_hash"])
    workflow.progress("Began", "Go on")
    assert [one.outcome for one in workflow.state.history] == ["carried_out", "reconciled", "carried_out"]


def test_an_older_inspection_settles_nothing(open_workflow: Open) -> None:
    workflow = open_workflow()
    begun(workflow)
    seen = workflow.inspect()
    with pytest.raises(CallFailed):
        workflow.progress("Began", "Go on", expected_revision=1)
    with pytest.raises(WorkflowError, match="inspect first"):
        workflow.reconcile(seen["inspection_sha256"], "Nothing was done")


def test_a_lost_answer_is_settled_by_what_the_project_shows_and_never_sent_again(
    project: Project, open_workflow: Open, tmp_path: Path
) -> None:
    slow = stand_in(tmp_path / "slow", slow_after="session checkpoint")
    workflow = open_workflow(binary=slow, timeout=5.0)
    context_hash = begun(workflow)
    with pytest.raises(CallFailed) as lost:
        workflow.checkpoint(context_hash, "Half done", "Go on")
    assert (lost.value.known, lost.value.report) == (False, None)
    assert event_types(project).count("checkpoint.created") == 1
    seen = workflow.inspect()
    assert seen["session"]["checkpoint"]["digest"] == "Half done"
    workflow.reconcile(seen["inspection_sha256"], "The checkpoint was saved")
    assert event_types(project).count("checkpoint.created") == 1
    assert workflow.state.last_revision == revision(project)


def test_a_lost_begin_is_found_by_its_session(project: Project, open_workflow: Open, tmp_path: Path) -> None:
    dying = stand_in(tmp_path / "dying", dies_after="session start")
    workflow = open_workflow(binary=dying)
    with pytest.raises(CallFailed):
        workflow.begin("parse", **LABELS)
    session = workflow.inspect()["sessions"][0]["id"]
    seen = workflow.inspect(session=session, work="parse")
    with pytest.raises(WorkflowError, match="not the one"):
        workflow.reconcile(seen["inspection_sha256"], "It was begun", session="0" * 26, work="parse")
    settled = workflow.reconcile(seen["inspection_sha256"], "It was begun", session=session, work="parse")
    assert (settled["phase"], settled["session"]) == ("active", session)
    assert event_types(project).count("session.started") == 1


def test_a_completion_whose_answer_was_lost_leaves_only_the_end_to_do(
    project: Project, open_workflow: Open, tmp_path: Path
) -> None:
    dying = stand_in(tmp_path / "dying", dies_after="work complete")
    workflow = open_workflow(binary=dying)
    begun(workflow)
    workflow.progress("Began", "Go on")
    workflow.evidence(draft(project))
    with pytest.raises(CallFailed):
        workflow.finish(COMPLETION, "All is done")
    seen = workflow.inspect()
    assert workflow.reconcile(seen["inspection_sha256"], "The work is done")["phase"] == "work_completed"
    assert workflow.finish(COMPLETION, "All is done")["completed"] is None
    assert workflow.state.phase == "ended"
    assert event_types(project).count("work.completed") == 1


def test_a_changed_program_is_refused_before_it_is_run(project: Project, open_workflow: Open, binary: Path) -> None:
    workflow = open_workflow(binary=binary)
    begun(workflow)
    binary.write_text(binary.read_text() + "# changed\n")
    before = revision(project)
    with pytest.raises(WorkflowError, match="not the one that was pinned"):
        workflow.progress("Began", "Go on")
    assert revision(project) == before


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sha256": "0" * 64}, "pinned"),
        ({"version": "0.0.0"}, "another version"),
        ({"version": None}, "together"),
        ({"binary": "awr"}, "absolute"),
        ({"project_id": "0" * 26}, "another project"),
    ],
)
def test_a_loop_opens_only_on_what_was_stated(
    open_workflow: Open, binary: Path, changed: dict[str, Any], said: str
) -> None:
    stated: dict[str, Any] = {
        "sha256": hashlib.sha256(binary.read_bytes()).hexdigest(),
        "version": "0.1.0",
        "state_path": binary.parent / "other" / "state.json",
    }
    if changed.get("binary") == "awr":
        stated["project"] = binary.parent / "project"
        with pytest.raises(WorkflowError, match=said):
            Workflow(**{"project_id": "x", **stated, **changed})
        return
    with pytest.raises(WorkflowError, match=said):
        open_workflow(**{"binary": binary, **stated, **changed})


def test_a_state_file_belongs_to_one_project_and_one_program(open_workflow: Open, binary: Path) -> None:
    open_workflow()
    with pytest.raises(WorkflowError, match="belongs to another"):
        open_workflow(binary=binary)


def test_two_processes_do_not_step_at_once(open_workflow: Open, tmp_path: Path) -> None:
    workflow = open_workflow()
    script = (
        "import fcntl, sys\n"
        f"file = open({str(tmp_path / 'loop' / 'state.json.lock')!r}, 'w')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(WorkflowError, match="another process"):
            workflow.begin("parse", **LABELS)
        other.stdin.close()
    workflow.begin("parse", **LABELS)


KILLED = """
import os, signal, sys
from pathlib import Path
from awr.client import Workflow
import awr.client.in_process as room
project, project_id, state = sys.argv[1:4]
workflow = Workflow(project=project, project_id=project_id, state_path=state)
call = room.InProcess.call
def die(self, operation, arguments):
    if operation == "session.start":
        if sys.argv[4] == "after":
            call(self, operation, arguments)
        os.kill(os.getpid(), signal.SIGKILL)
    return call(self, operation, arguments)
room.InProcess.call = die
workflow.begin("parse", agent="host", provider="p", model="m")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_host_that_is_killed_around_its_call_finds_it_pending(
    project: Project, open_workflow: Open, tmp_path: Path, when: str
) -> None:
    workflow = open_workflow()
    arguments = [str(project.root), workflow.state.binding["project_id"], str(tmp_path / "loop/state.json"), when]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    again = open_workflow()
    with pytest.raises(WorkflowError, match="pending with outcome pending"):
        again.begin("parse", **LABELS)
    assert event_types(project).count("session.started") == (when == "after")
    seen = again.inspect()
    assert again.reconcile(seen["inspection_sha256"], "I looked")["phase"] == "new"


def test_an_awr_without_prepared_work_compiles_the_context_alone(open_workflow: Open, tmp_path: Path) -> None:
    missing = ("workflow.prepare", "workflow.action_guidance", "workflow.response_summary", "work.management")
    workflow = open_workflow(binary=stand_in(tmp_path / "old", missing=missing))
    workflow.begin("parse", **LABELS)
    value = workflow.prepare({"observed_at": 1, "note": "Looked"})
    assert (value["workflow_path"], value["management_available"], value["observation_recorded"]) == (
        "legacy",
        False,
        False,
    )
    assert value["work_context"]["rendered_context"]


@pytest.mark.parametrize(
    ("missing", "view"),
    [
        (("workflow.action_guidance",), "summary"),
        (("workflow.action_guidance", "workflow.response_summary"), None),
        ((), "action"),
    ],
)
def test_the_nearest_view_is_asked_for(
    open_workflow: Open, tmp_path: Path, missing: tuple[str, ...], view: str | None
) -> None:
    workflow = open_workflow(binary=stand_in(tmp_path / "old", missing=missing))
    workflow.begin("parse", **LABELS)
    value = workflow.prepare()
    assert value.get("response_view", {}).get("view") == view


def test_an_awr_without_compactions_is_not_even_called(open_workflow: Open, tmp_path: Path) -> None:
    workflow = open_workflow(binary=stand_in(tmp_path / "old", missing=("client.compaction",)))
    workflow.begin("parse", **LABELS)
    with pytest.raises(ValueError, match=r"client\.compaction"):
        workflow.observe_compaction(OBSERVATION)
    with pytest.raises(ValueError, match=r"client\.compaction"):
        workflow.compaction()
    assert workflow.state.pending is None


def test_an_awr_without_what_the_loop_stands_on_is_refused_at_once(open_workflow: Open, tmp_path: Path) -> None:
    with pytest.raises(WorkflowError, match="evidence"):
        open_workflow(binary=stand_in(tmp_path / "old", missing=("evidence.read_write",)))
    assert not (tmp_path / "loop" / "state.json").exists()


def test_an_observation_is_recorded_and_the_work_prepared_once_more(project: Project, open_workflow: Open) -> None:
    workflow = open_workflow()
    workflow.begin("parse", **LABELS)
    value = workflow.prepare({"observed_at": 1, "note": "Looked", "single_outcome": True})
    assert value["observation_recorded"] is True
    assert value["management"]["record_required"] is False
    assert event_types(project).count("management.assessed") == 1
    assert workflow.prepare()["observation_recorded"] is False


def test_state_and_receipts_are_for_their_owner_alone(open_workflow: Open, tmp_path: Path) -> None:
    begun(open_workflow())
    assert (tmp_path / "loop").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "loop").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_link_in_the_states_place_is_refused(open_workflow: Open, tmp_path: Path) -> None:
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "state.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkflowError, match="symbolic links"):
        open_workflow()


def test_a_state_file_of_somebody_else_is_left_as_it_is(open_workflow: Open, tmp_path: Path) -> None:
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "state.json").write_text("{}")
    with pytest.raises(WorkflowError, match="not one that this program wrote"):
        open_workflow()
    assert (tmp_path / "loop" / "state.json").read_text() == "{}"


def test_a_program_leaves_a_receipt_of_every_call(open_workflow: Open, binary: Path, tmp_path: Path) -> None:
    workflow = open_workflow(binary=binary)
    workflow.begin("parse", **LABELS)
    receipts = [json.loads(path.read_text()) for path in (tmp_path / "loop" / "receipts").glob("*/receipt.json")]
    started = next(one for one in receipts if "start" in one["argv"])
    assert (started["outcome"], started["exit_code"]) == ("returned", 0)
    assert started["binary_sha256"] == hashlib.sha256(binary.read_bytes()).hexdigest()


def test_the_package_is_imported_without_servers_terminals_and_commands() -> None:
    script = "import sys, awr.client; awr.client.Workflow; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert not {"mcp", "starlette", "uvicorn", "click", "rich", "anyio", "pydantic"} & set(done.stdout.split())


def test_the_state_is_what_its_type_says(open_workflow: Open) -> None:
    assert isinstance(open_workflow().state, State)
