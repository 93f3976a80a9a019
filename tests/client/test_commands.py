"""`python -m awr.client.workflow`: each step as a command of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from awr.client.commands import main
from awr.project import Project
from tests.client.test_workflow import COMPLETION, OBSERVATION, draft


class Steps:
    """Runs steps of one loop in this process."""

    def __init__(self, project: Project, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with project.journal.read() as reader:
            project_id = reader.project_id
        state = folder / "loop" / "state.json"
        self.words = ["--project", str(project.root), "--project-id", project_id, "--state", str(state)]
        self._folder = folder
        self._capsys = capsys

    def __call__(self, *words: str) -> dict[str, Any]:
        self._capsys.readouterr()
        code = main([*self.words, *words])
        captured = self._capsys.readouterr()
        assert (code, captured.err) == (0, ""), captured
        found: dict[str, Any] = json.loads(captured.out)
        return found

    def refused(self, *words: str) -> dict[str, Any]:
        self._capsys.readouterr()
        code = main([*self.words, *words])
        captured = self._capsys.readouterr()
        assert (code, captured.out) == (1, ""), captured
        body: dict[str, Any] = json.loads(captured.err)
        assert (body["ok"], body["automatic_retry"]) == (False, False)
        found: dict[str, Any] = body["error"]
        return found

    def file(self, name: str, body: object) -> str:
        path = self._folder / name
        path.write_text(json.dumps(body))
        return str(path)


@pytest.fixture
def step(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Steps:
    return Steps(project, tmp_path, capsys)


def test_a_session_is_driven_step_by_step(project: Project, step: Steps) -> None:
    step("begin", "--work", "parse", "--agent", "a", "--provider", "p", "--model", "m")
    step("prepare", "--response-view", "summary", "--goal", "goal-1")
    context_hash = step("context")["work_context"]["context_hash"]
    step("ack", "--consumed-hash", context_hash)
    observed = step("observe-compaction", "--input", step.file("o.json", {"observation": OBSERVATION}))
    assert step("compaction", "--include-observation")["observation"] == {**OBSERVATION, **_gaps()}
    step("defer-compaction", "--observation-event-id", observed["observation_event_id"])
    step("progress", "--reason", "Began", "--next-action", "Go on")
    step("evidence", "--input", step.file("e.json", draft(project)))
    step("checkpoint", "--consumed-hash", context_hash, "--digest", "Half", "--next-action", "Go on")
    ended = step("finish", "--input", step.file("c.json", COMPLETION), "--reason", "Done")
    assert ended["ended"]["session"]["status"] == "ended"


def _gaps() -> dict[str, None]:
    return {"duration_ms": None, "usage": None}


def test_a_refused_step_is_inspected_and_reconciled(step: Steps) -> None:
    words = ["--work", "parse", "--agent", "a", "--provider", "p", "--model", "m"]
    error = step.refused("begin", *words, "--expected-revision", "1")
    assert (error["code"], error["outcome_known"]) == ("RevisionConflict", True)
    assert step.refused("begin", *words)["code"] == "WorkflowError"
    seen = step("inspect")
    step("reconcile", "--inspection-sha256", seen["inspection_sha256"], "--reason", "Nothing was done")
    step("begin", *words)


@pytest.mark.parametrize(
    "body", [{}, {"observation": OBSERVATION, "session": "x"}, [], {"observation": {**OBSERVATION, "sequence": 0}}]
)
def test_a_file_that_does_not_fit_is_refused(step: Steps, body: object) -> None:
    step("begin", "--work", "parse", "--agent", "a", "--provider", "p", "--model", "m")
    assert step.refused("observe-compaction", "--input", step.file("o.json", body))["code"]


def test_a_missing_file_is_refused(step: Steps, tmp_path: Path) -> None:
    step("begin", "--work", "parse", "--agent", "a", "--provider", "p", "--model", "m")
    error = step.refused("evidence", "--input", str(tmp_path / "none.json"))
    assert error == {"code": "WorkflowError", "message": "the input file cannot be read"}


def test_a_wrong_call_is_exit_code_2(step: Steps, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*step.words, "dance"]) == 2
    assert main([]) == 2
    assert capsys.readouterr().out == ""


def test_the_module_runs_as_a_program(project: Project, step: Steps) -> None:
    command = [sys.executable, "-m", "awr.client.workflow", *step.words, "inspect"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["pending"] is None
