"""The workflow as a program: every subcommand, its output and its errors."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from awr.client.workflow_cli import main
from awr.project import Project
from tests.support.contexts import note
from tests.support.projects import begin_session, revision
from tests.support.workflows import (
    VERSION,
    completion,
    evidence_draft,
    make_program,
    make_workflow_project,
    observation,
    project_id,
    state_of,
    work_observation,
)


class Program:
    """Calls the program in this process, as a host would from a shell."""

    def __init__(self, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
        self.project = project
        self._capsys = capsys
        self.words = self.globals()

    def globals(self) -> list[str]:
        state = self.project.root.parent / "state" / "workflow.json"
        return ["--project", str(self.project.root), "--project-id", project_id(self.project), "--state", str(state)]

    def run(self, *words: str) -> dict[str, Any]:
        code = main([*self.words, *words])
        captured = self._capsys.readouterr()
        assert (code, captured.err) == (0, ""), captured
        found: dict[str, Any] = json.loads(captured.out)
        assert captured.out.startswith("{\n  "), "it is meant to be read as well"
        return found

    def refused(self, *words: str, code: int = 1) -> dict[str, Any]:
        assert main([*self.words, *words]) == code
        captured = self._capsys.readouterr()
        assert captured.out == ""
        found: dict[str, Any] = json.loads(captured.err)
        assert found.keys() == {"ok", "error", "automatic_retry"}
        assert (found["ok"], found["automatic_retry"]) == (False, False)
        error: dict[str, Any] = found["error"]
        return error

    def file(self, value: Any) -> str:
        path = self.project.root.parent / "input.json"
        path.write_text(json.dumps(value))
        return str(path)


@pytest.fixture
def program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(make_workflow_project(tmp_path / "p"), capsys)


BEGIN = ("begin", "--work", "parse", "--agent", "me", "--provider", "p", "--model", "m")


def test_every_subcommand_of_a_session(program: Program) -> None:
    program.run(*BEGIN)
    assert "guidance" in program.run("prepare", "--goal", "goal-1", "--observation", program.file(work_observation()))
    assert "guidance" not in program.run("prepare", "--response-view", "full")
    given = program.run("context")["work_context"]["context_hash"]
    assert program.run("ack", "--consumed-hash", given)["acknowledged"] is True
    program.run("progress", "--reason", "Begun", "--next-action", "Go on")
    program.run("checkpoint", "--consumed-hash", given, "--digest", "Half way", "--next-action", "Go on")
    told = {"observation": observation(), "policy": {"post_compaction_threshold_percent": 90}}
    seen = program.run("observe-compaction", "--input", program.file(told))
    assert seen["state"] == "continue"
    program.run("defer-compaction", "--observation-event-id", seen["observation_event_id"])
    assert program.run("compaction")["state"] == "deferred"
    assert program.run("compaction", "--include-observation")["observation"]["sequence"] == 1
    program.run("evidence", "--input", program.file(evidence_draft(program.project)))
    assert program.run("inspect")["pending"] is None
    program.run("finish", "--input", program.file(completion()), "--reason", "Done")
    assert state_of(program.project)["phase"] == "ended"


def test_a_stale_revision_is_reconciled_from_the_shell(program: Program) -> None:
    program.run(*BEGIN)
    note(program.project)
    told = program.file({"observation": observation()})
    error = program.refused("observe-compaction", "--input", told)
    assert (error["code"], error["details"]["report"]["code"]) == ("CommandFailed", "RevisionConflict")
    assert program.refused("observe-compaction", "--input", told)["code"] == "WorkflowRefused"
    sha256 = program.run("inspect")["inspection_sha256"]
    program.run("reconcile", "--inspection-sha256", sha256, "--reason", "nothing was recorded")
    stated = program.file({"observation": observation(), "expected_revision": revision(program.project)})
    program.run("observe-compaction", "--input", stated)


def test_a_session_is_adopted_through_a_pinned_program(program: Program, tmp_path: Path) -> None:
    session = begin_session(program.project)
    binary = make_program(tmp_path / "awr")
    pins = ["--binary", str(binary), "--sha256", hashlib.sha256(binary.read_bytes()).hexdigest()]
    program.words += [*pins, "--version", VERSION]
    program.run("adopt", "--session", session, "--work", "parse")
    assert state_of(program.project)["binding"]["transport"] == "executable"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense-word"],
        ["begin", "--work", "parse"],
        ["prepare", "--response-view", "nonsense-word"],
        ["progress", "--reason", "r", "--next-action", "n", "--expected-revision", "nonsense-word"],
        ["--binary", "/bin/true", "context"],
    ],
)
def test_a_wrong_call_is_refused_without_repeating_it(program: Program, words: list[str]) -> None:
    error = program.refused(*words, code=2)
    assert error["code"] == "InvalidInput"
    assert "nonsense" not in json.dumps(error)
    assert not (program.project.root.parent / "state").exists()


def test_a_file_that_is_missing_or_no_object_and_a_secret_are_refused(program: Program) -> None:
    program.run(*BEGIN)
    assert program.refused("evidence", "--input", "nothing.json")["code"] == "NotFound"
    assert program.refused("evidence", "--input", program.file([1]))["code"] == "InvalidInput"
    assert program.refused("observe-compaction", "--input", program.file({"more": 1}))["code"] == "InvalidInput"
    assert program.refused("evidence", "--input", program.file("x" * 2**20))["code"] == "InvalidInput"
    assert program.refused("evidence", "--input", ".")["code"] == "Io"
    assert program.refused("adopt", "--session", "ghp_" + "a1" * 12, "--work", "w")["code"] == "RuleViolation"
    program.words[1] = "/nowhere"
    assert program.refused("context")["code"] == "NotFound"


def test_it_runs_as_a_module_of_its_own(program: Program) -> None:
    command = [sys.executable, "-W", "error", "-m", "awr.client.workflow"]
    done = subprocess.run([*command, *program.words, *BEGIN], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["session"]["status"] == "active"
    told = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "observe-compaction" in told.stdout
