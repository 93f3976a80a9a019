"""A write whose answer is lost, refused or cut off by a kill: everything else is refused until it is reconciled."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from awr.client import Workflow
from awr.errors import CommandFailed, InvalidInput, RuleViolation, WorkflowRefused
from awr.operations.checkpoint import CheckpointRequest, checkpoint
from awr.operations.session import EndRequest, end
from awr.project import Project
from tests.support.contexts import note
from tests.support.projects import begin_session, revision
from tests.support.workflows import (
    LABELS,
    acknowledged,
    begun,
    completion,
    evidence_draft,
    make_workflow_project,
    observation,
    older_build,
    pinned,
    project_id,
    started,
    state_of,
    work_observation,
    workflow_on,
)

ROOT = Path(__file__).parents[2]


def require_refusal(workflow: Workflow) -> None:
    """Every call but the three that look must be refused."""
    calls: list[Any] = [
        workflow.context,
        workflow.prepare,
        lambda: workflow.begin("parse", *LABELS),
        lambda: workflow.adopt("S", "parse"),
        lambda: workflow.acknowledge("ab" * 32),
        lambda: workflow.checkpoint("ab" * 32, "d", "n"),
        lambda: workflow.progress("r", "n"),
        lambda: workflow.evidence({}),
        lambda: workflow.observe_compaction(observation(9)),
        lambda: workflow.defer_compaction("E"),
        lambda: workflow.finish(completion(), "r"),
    ]
    for call in calls:
        with pytest.raises(WorkflowRefused, match="a write is pending"):
            call()


def settle(workflow: Workflow, **named: Any) -> dict[str, Any]:
    """Inspect and reconcile."""
    seen = workflow.inspect(**named)
    return workflow.reconcile(seen["inspection_sha256"], "looked at the facts", **named)


def checkpoints(project: Project) -> int:
    with project.journal.read() as reader:
        [row] = reader.database.rows("SELECT count(*) AS n FROM events WHERE event_type = 'checkpoint.created'")
        return int(row["n"])


def test_a_stale_revision_leaves_the_write_pending_until_it_is_reconciled(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    note(project)
    with pytest.raises(CommandFailed) as failed:
        workflow.observe_compaction(observation())
    details: Any = failed.value.details
    assert (details["outcome"], details["report"]["code"]) == ("returned", "RevisionConflict")
    assert state_of(project)["pending"]["outcome"] == "returned"
    require_refusal(workflow)
    assert workflow.compaction()["state"] == "measurement_missing"
    seen = workflow.inspect()
    assert seen["pending"]["operation"] == "compaction.observe"
    assert seen["facts"]["compaction"]["observation"] is None
    assert seen["project_revision"] == revision(project)
    done = workflow.reconcile(seen["inspection_sha256"], "AWR has no such observation")
    assert (done["operation"], done["phase"]) == ("compaction.observe", "active")
    assert workflow.observe_compaction(observation())["already_recorded"] is False
    [_, reconciled, succeeded] = state_of(project)["history"]
    assert (reconciled["outcome"], succeeded["outcome"]) == ("reconciled", "succeeded")
    assert reconciled["reconciliation"] == {
        "inspection_sha256": seen["inspection_sha256"],
        "reason": "AWR has no such observation",
    }


def test_a_revision_that_is_stated_counts_and_looking_at_compactions_states_none(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    note(project)
    workflow.compaction()
    with pytest.raises(CommandFailed):
        workflow.observe_compaction(observation())
    settle(workflow)
    note(project)
    workflow.observe_compaction(observation(), expected_revision=revision(project))
    note(project)
    workflow.context()
    workflow.observe_compaction(observation(2))


def test_an_answer_lost_at_the_deadline_is_found_by_inspection(tmp_path: Path) -> None:
    program = older_build(tmp_path / "awr", fails="session checkpoint", how="hangs")
    project, workflow = begun(tmp_path, transport=pinned(program))
    given = acknowledged(workflow)
    hasty = workflow_on(project, transport=pinned(program, timeout=6))
    with pytest.raises(CommandFailed, match="nobody knows") as failed:
        hasty.checkpoint(given, "Grammar agreed", "Write the lexer")
    assert failed.value.details["outcome"] == "unknown"
    assert checkpoints(project) == 1
    pending = state_of(project)["pending"]
    assert (pending["operation"], pending["outcome"]) == ("session.checkpoint", "unknown")
    receipt = json.loads((project.root.parent / "state" / pending["receipts"] / "receipt.json").read_bytes())
    assert (receipt["outcome"], receipt["exit_code"]) == ("unknown", None)
    require_refusal(workflow)
    seen = workflow.inspect()
    saved = seen["facts"]["session"]["session"]["last_checkpoint_id"]
    workflow.reconcile(seen["inspection_sha256"], "the checkpoint is on record")
    assert state_of(project)["checkpoint"] == saved
    assert checkpoints(project) == 1
    log = program.with_suffix(".log").read_text().splitlines()
    assert sum(line.startswith("session checkpoint") for line in log) == 1
    with pytest.raises(WorkflowRefused, match="no context has been delivered"):
        workflow.checkpoint(given, "d", "n")


@pytest.mark.parametrize("found", [True, False])
def test_a_lost_beginning_is_taken_up_by_its_session_or_given_up(tmp_path: Path, found: bool) -> None:
    program = older_build(tmp_path / "awr", fails="session start")
    project, workflow = started(tmp_path, transport=pinned(program))
    begin_session(project, work="report")
    with pytest.raises(CommandFailed, match="nobody knows"):
        workflow.begin("parse", *LABELS, expected_revision=revision(project))
    require_refusal(workflow)
    seen = workflow.inspect()
    candidates = [one["id"] for one in seen["facts"]["sessions"]["candidates"]]
    assert len(candidates) == 2, "both sessions have these labels"
    mine, other = candidates
    if not found:
        # The host leaves it: it is ended elsewhere, and this workflow begins another one.
        settle(workflow)
        assert state_of(project)["phase"] == "new"
        end(project, EndRequest(session=mine, expected_revision=revision(project)))
        workflow.begin("parse", *LABELS, expected_revision=revision(project))
        return
    with pytest.raises(WorkflowRefused, match="not the session"):
        settle(workflow, session=other)
    with pytest.raises(WorkflowRefused, match="other work"):
        settle(workflow, session=other, work="report")
    with pytest.raises(WorkflowRefused, match="not the inspection"):
        workflow.reconcile(seen["inspection_sha256"], "r", session=mine)
    done = settle(workflow, session=mine)
    assert (done["phase"], done["session"], done["work"]) == ("active", mine, "parse")
    acknowledged(workflow)
    workflow.progress("Begun", "Go on")


@pytest.mark.parametrize("lost", ["work complete", "session end"])
def test_a_finish_is_gone_on_with_from_where_it_broke_off(tmp_path: Path, lost: str) -> None:
    project, workflow = begun(tmp_path, transport=pinned(older_build(tmp_path / "awr", fails=lost)))
    acknowledged(workflow)
    workflow.progress("Begun", "Go on")
    workflow.evidence(evidence_draft(project))
    with pytest.raises(CommandFailed, match="nobody knows"):
        workflow.finish(completion(), "Done")
    require_refusal(workflow)
    done = settle(workflow)
    if lost == "session end":
        assert done["phase"] == "ended"
        return
    assert done["phase"] == "work_completed"
    finished = workflow.finish(completion(), "Done")
    assert finished["completed"] is None
    assert finished["ended"]["session"]["status"] == "ended"


def test_an_end_that_was_refused_is_tried_again_only_by_the_host(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    acknowledged(workflow)
    workflow.progress("Begun", "Go on")
    workflow.evidence(evidence_draft(project))
    with pytest.raises(CommandFailed):
        workflow.finish(completion("another-key"), "Done")
    assert state_of(project)["pending"]["operation"] == "transition.complete"
    assert settle(workflow)["phase"] == "active"
    assert workflow.finish(completion(), "Done")["ended"]["session"]["status"] == "ended"


@pytest.mark.parametrize(
    ("lost", "call", "fact"),
    [
        ("evidence add", lambda flow, project: flow.evidence(evidence_draft(project)), "evidence"),
        ("work manage", lambda flow, _: flow.prepare(work_observation()), "management"),
        ("session compaction observe", lambda flow, _: flow.observe_compaction(observation()), "compaction"),
        ("work progress", lambda flow, _: flow.progress("Begun", "Go on"), "work"),
    ],
)
def test_the_facts_of_an_inspection_bear_on_what_was_lost(tmp_path: Path, lost: str, call: Any, fact: str) -> None:
    project, workflow = begun(tmp_path, transport=pinned(older_build(tmp_path / "awr", fails=lost)))
    acknowledged(workflow)
    with pytest.raises(CommandFailed, match="nobody knows"):
        call(workflow, project)
    found = workflow.inspect()["facts"][fact]
    told: dict[str, Any] = {
        "evidence": lambda: found["evidence"][0]["evidence"]["external_key"] == "samples-1",
        "management": lambda: found["assessment"]["observation"]["note"] == "one outcome in one module",
        "compaction": lambda: found["observation"]["compaction_id"] == "native-compaction-1",
        "work": lambda: (found["work"]["status"], found["work"]["next_action"]) == ("in_progress", "Go on"),
    }
    assert told[fact]()
    assert settle(workflow)["phase"] == "active"
    workflow.context()


def test_a_lost_deferral_is_seen_and_a_session_taken_over_ends_the_workflow(tmp_path: Path) -> None:
    program = older_build(tmp_path / "awr", fails="session compaction defer")
    project, workflow = begun(tmp_path, transport=pinned(program))
    event = workflow.observe_compaction(observation())["observation_event_id"]
    with pytest.raises(CommandFailed):
        workflow.defer_compaction(event)
    assert workflow.inspect()["facts"]["compaction"]["state"] == "deferred"
    session = state_of(project)["session"]
    end(project, EndRequest(session=session, outcome="interrupted", expected_revision=revision(project)))
    assert settle(workflow)["phase"] == "ended"


def test_facts_that_moved_since_the_inspection_must_be_inspected_again(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    note(project)
    with pytest.raises(CommandFailed):
        workflow.observe_compaction(observation())
    seen = workflow.inspect()
    request = CheckpointRequest(
        context_hash="ab" * 32, digest="d", next_action="n", expected_revision=revision(project)
    )
    checkpoint(project, request)
    with pytest.raises(WorkflowRefused, match="moved since"):
        workflow.reconcile(seen["inspection_sha256"], "r")
    note(project)
    settle(workflow)


def test_a_reconciliation_needs_a_pending_write_an_inspection_and_a_reason(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    seen = workflow.inspect()
    assert seen["pending"] is None
    with pytest.raises(WorkflowRefused, match="no write is pending"):
        workflow.reconcile(seen["inspection_sha256"], "r")
    note(project)
    with pytest.raises(CommandFailed):
        workflow.observe_compaction(observation())
    with pytest.raises(WorkflowRefused, match="not the inspection"):
        workflow.reconcile(seen["inspection_sha256"], "r")
    seen = workflow.inspect()
    with pytest.raises(InvalidInput):
        workflow.reconcile(seen["inspection_sha256"], " ")
    with pytest.raises(RuleViolation):
        workflow.reconcile(seen["inspection_sha256"], "ghp_" + "a1" * 12)
    with pytest.raises(WorkflowRefused, match="another session"):
        workflow.inspect(session="another")
    assert state_of(project)["pending"] is not None


def test_a_fault_in_this_process_leaves_the_outcome_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, workflow = begun(tmp_path)

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a text that must not go further")

    monkeypatch.setattr("awr.operations.compaction.record_observation", broken)
    with pytest.raises(CommandFailed) as failed:
        workflow.observe_compaction(observation())
    assert failed.value.details["outcome"] == "unknown"
    assert "must not" not in json.dumps(failed.value.report())
    assert state_of(project)["pending"]["outcome"] == "unknown"


HOLD = """
import sys
from awr.client import Workflow
class Slow:
    def __init__(self, inner): self.inner = inner
    def identity(self): return self.inner.identity()
    def verify(self): self.inner.verify()
    def call(self, operation, arguments, **more):
        if operation == "compaction.inspect":
            print("held", flush=True)
            sys.stdin.read()
        return self.inner.call(operation, arguments, **more)
from awr.client import InProcessTransport
Workflow(sys.argv[1], project_id=sys.argv[2], state=sys.argv[3], transport=Slow(InProcessTransport())).compaction()
"""


def test_a_second_process_on_one_state_gets_one_clear_error_at_once(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    state = project.root.parent / "state" / "workflow.json"
    command = [sys.executable, "-c", HOLD, str(project.root), project_id(project), str(state)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        for call in (workflow.context, workflow.inspect, lambda: workflow_on(project)):
            with pytest.raises(WorkflowRefused, match="another call of a workflow on this state is running"):
                call()
        process.stdin.close()
    assert process.returncode == 0
    workflow.context()


KILLED = """
import sys
from awr.client import Workflow
from tests.support.boundaries import die_at_step
project, identity, state, context_hash, boundary = sys.argv[1:]
workflow = Workflow(project, project_id=identity, state=state)
count = die_at_step(int(boundary))
workflow.checkpoint(context_hash, "Grammar agreed", "Write the lexer")
print(count())
"""


def test_a_process_killed_at_any_step_of_a_write_never_loses_sight_of_it(tmp_path: Path) -> None:
    project = make_workflow_project(tmp_path / "p")
    workflow = workflow_on(project)
    workflow.begin("parse", *LABELS)
    seen = set()
    given, boundary = acknowledged(workflow), 0
    while True:
        boundary += 1
        before = checkpoints(project)
        state = project.root.parent / "state" / "workflow.json"
        command = [sys.executable, "-c", KILLED, str(project.root), project_id(project), str(state), given]
        done = subprocess.run([*command, str(boundary)], cwd=ROOT, capture_output=True, text=True, check=False)
        written = checkpoints(project) - before
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        kept = state_of(project)
        if kept["pending"] is None:
            succeeded = [one for one in kept["history"] if one["operation"] == "session.checkpoint"]
            known = sum(one["outcome"] == "succeeded" for one in succeeded)
            if written:
                assert kept["checkpoint"] is not None
            seen.add(("settled", written, known > 0))
            continue
        seen.add(("pending", written, kept["pending"]["outcome"]))
        require_refusal(workflow)
        saved = workflow.inspect()["facts"]["session"]["session"]["last_checkpoint_id"]
        settle(workflow)
        assert (saved is not None) == bool(checkpoints(project))
        assert checkpoints(project) - before == written
        given = acknowledged(workflow)
    assert written == 1
    assert boundary == int(done.stdout) + 1
    assert ("settled", 0, False) in seen, "killed before the write was begun"
    assert ("pending", 0, "pending") in seen, "killed before AWR wrote"
    assert ("pending", 1, "pending") in seen, "killed between the write and its outcome"
    assert ("pending", 1, "returned") in seen, "killed between the outcome and the history"
    assert ("settled", 1, True) in seen, "killed behind the last save"
