"""A day of work as a person would type it: two agents, a wait, a compaction, a decision, a resume, evidence, done."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HASH = "ab" * 32
SHA = "c0ffee" * 6 + "c0ff"


class Terminal:
    """One person's terminal in one project folder: every call is a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder.parent / "home"
        self.home.mkdir()

    def run(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Type one command with --json and return what it prints."""
        done = subprocess.run(
            [str(Path(sys.executable).with_name("awr")), "--json", *words],
            cwd=self.folder,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        found: dict[str, Any] = json.loads(done.stdout if done.stdout else done.stderr)
        return found

    def write(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Type one command that changes something, with the revision the project has now."""
        return self.run(*words, "--expected-revision", str(self.revision()), code=code)

    def send(self, *words: str, request: dict[str, Any]) -> dict[str, Any]:
        """Type one command that takes its request as a file."""
        (self.folder / "request.json").write_text(json.dumps({**request, "expected_revision": self.revision()}))
        return self.run(*words, "--input", "request.json")

    def revision(self) -> int:
        """Look up the project's revision."""
        found: int = self.run("status", "--view", "summary")["project_revision"]
        return found

    def card(self, session: str | None, *, code: int = 0) -> str:
        """Ask for the one next action."""
        words = ["work", "prepare", "task-1", "--response-view", "action"]
        found = self.run(*words, *(("--session", session) if session else ()), code=code)
        assert set(found["guidance"]) == {"when", "basis", "next_action", "recheck"}
        assert len(json.dumps(found["guidance"]).encode()) <= 1024
        text: str = found["guidance"]["next_action"]
        return text


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    folder = tmp_path / "parser"
    folder.mkdir()
    return Terminal(folder)


def compaction(session: str, number: int, after: int) -> dict[str, Any]:
    return {
        "session": session,
        "observation": {
            "compaction_id": f"native-{number}",
            "sequence": number,
            "observed_at": 1_789_500_000_000 + number,
            "trigger": "automatic",
            "model": "large",
            "source": f"host:native-{number};window=setting",
            "measurement_scope": "full_request",
            "measurement_basis": "host_reported",
            "before_tokens": 190_000,
            "after_tokens": after,
            "context_window_tokens": 200_000,
        },
    }


def manage(terminal: Terminal, session: str, key: str) -> str:
    fingerprint = terminal.run("work", "assess", "task-1")["assessment"]["contract_fingerprint"]
    request = {
        "work": "task-1",
        "session": session,
        "request_key": key,
        "contract_fingerprint": fingerprint,
        "observation": {
            "observed_at": 1_789_500_000_000,
            "note": "one outcome in one module",
            "single_outcome": True,
            "bounded_scope": True,
            "single_executor": True,
            "no_deferred_wait": True,
            "independently_schedulable_units": 1,
            "plan_valid": True,
            "outcome_known": True,
        },
    }
    mode: str = terminal.send("work", "manage", request=request)["assessment"]["decision"]["mode"]
    return mode


def test_a_day_of_work_survives_a_compaction_a_decision_and_a_change_of_agent(terminal: Terminal) -> None:
    # Morning: a project, and Ana's session with the work in her hands.
    terminal.run("init", "--goal", "Ship the parser", "--accept")
    assert "record known observations" in terminal.card(None)
    labels = ("--provider", "anthropic", "--model", "large")
    ana = terminal.write("session", "start", "--work", "task-1", "--agent", "ana", *labels, "--claim")["session"][
        "id"
    ]
    assert "record known observations" in terminal.card(ana)
    assert manage(terminal, ana, "first-look") == "lightweight"
    assert "Consume the rendered context" in terminal.card(ana)

    # She begins. The ledger says so, and nobody else can take it.
    progress = ("--reason", "Started", "--next-action", "Cover the string escapes")
    terminal.write("work", "progress", "task-1", "--session", ana, *progress)
    assert "status: in_progress" in (terminal.folder / "work-ledger.yaml").read_text()
    ben = terminal.write("session", "start", "--work", "task-1", "--agent", "ben", *labels)["session"]["id"]
    assert terminal.write("work", "claim", "task-1", "--session", ben, code=1)["code"] == "ClaimConflict"
    assert "conflicting claim" in terminal.card(ben)
    terminal.write("session", "end", "--session", ben, "--outcome", "ended")
    assert "resume" in terminal.card(ben)

    # A deployment begins elsewhere; until its host reports how it ended, nothing may be retried.
    execution = terminal.write(
        *("execution", "register", "--session", ana, "--operation-key", "try-1", "--purpose", "Run the samples")
    )["execution"]["id"]
    for key, phase, words in (
        ("r1", "started", "Query execution status"),
        ("r2", "succeeded", "Consume the rendered"),
    ):
        terminal.send(
            *("execution", "report"),
            request={
                "report": {
                    "request_key": key,
                    "execution_id": execution,
                    "host_id": "ci",
                    "host_work_key": "samples",
                    "native_session": "job-1",
                    "agent_id": "ci",
                    "origin": "host_observed",
                    "phase": phase,
                    "observed_at": 1_789_500_000_000,
                    "summary": "as the host says",
                }
            },
        )
        assert words in terminal.card(ana)

    # Noon: the agent compacts by itself, and stays above the threshold.
    seen = terminal.send("session", "compaction", "observe", request=compaction(ana, 1, after=130_000))
    assert (seen["state"], seen["post_compaction_percent"]) == ("handoff_candidate", 65.0)
    assert "ask before opening" in terminal.card(ana)
    saved = ("--context-hash", HASH, "--digest", "Grammar covers the samples", "--next-action", "String escapes")
    assert _restart(terminal, ana)["smaller"] is None, "without a checkpoint a part of the restart is unknown"
    terminal.write("session", "checkpoint", "--session", ana, *saved)
    assert _restart(terminal, ana)["smaller"] is True

    # She asks, and waits. Nobody repeats the question, and nobody resumes over it.
    asked = terminal.write("session", "wait", "--session", ana, "--question", "Open a new session?", *saved)
    assert "Do not repeat the request" in terminal.card(ana)
    refused = terminal.write("session", "resume", "--agent", "ben", *labels, "--from-session", ana, code=1)
    assert refused["code"] == "InvalidTransition"
    terminal.write("session", "reply", asked["wait"]["id"], "--reply", "Yes, let Ben go on")
    assert "ask before opening" in terminal.card(ana)

    # Afternoon: Ben goes on from her checkpoint, with her claim and the required context.
    terminal.write("session", "checkpoint", "--session", ana, *saved, "--open-loop", "escapes in comments")
    resumed = terminal.write("session", "resume", "--agent", "ben", *labels, "--from-session", ana)
    ben = resumed["resumed"]["session"]["id"]
    assert resumed["context_ready"] is True
    assert resumed["resumed"]["claim"]["session_id"] == ben
    assert resumed["resumed"]["checkpoint"]["open_loops"] == ["escapes in comments"]
    assert "escapes in comments" in resumed["context"]["work_context"]["rendered_context"]
    assert "resume" in terminal.card(ana)
    assert "record known observations" in terminal.card(ben)
    assert manage(terminal, ben, "second-look") == "continuous"
    assert "Consume the rendered context" in terminal.card(ben)

    # Evening: evidence, and only then done.
    criterion = "The goal is reached and somebody has checked it."
    report = terminal.folder / "reports" / "samples.json"
    report.parent.mkdir()
    body = {
        "version": 1,
        "work_item": "task-1",
        "source_sha": SHA,
        "command": "make samples",
        "scope": ["parser"],
        "verified_at": 1_789_500_000_000,
        "checks": [{"name": "samples", "passed": True, "details": "all parse", "criteria": [criterion]}],
    }
    report.write_text(json.dumps(body))
    found = terminal.run(
        *("work", "prepare-completion", "task-1", "--report", "reports/samples.json", "--evidence-key", "samples-1"),
        *("--source-sha", SHA, "--level", "locally_verified"),
    )
    assert (found["stage"], found["completion_claimed"]) == ("report_validated", False)
    completion = {
        "version": 1,
        "source_sha": SHA,
        "acceptance": [{"criterion": criterion, "evidence": ["samples-1"]}],
    }
    (terminal.folder / "completion.json").write_text(json.dumps(completion))
    done = ("work", "complete", "task-1", "--session", ben, "--reason", "Checked", "--input", "completion.json")
    assert terminal.write(*done, code=1)["code"] == "EvidenceMissing"
    terminal.write(
        *("evidence", "add", "samples-1", "--evidence-type", "test_report", "--level", "locally_verified"),
        *("--summary", "Every sample parses", "--locator", "reports/samples.json", "--scope", "parser"),
        *("--work", "task-1", "--sha256", hashlib.sha256(report.read_bytes()).hexdigest(), "--source-sha", SHA),
        *("--command", "make samples", "--verified-at", "1789500000000"),
    )
    terminal.write(*done)
    assert terminal.run("work", "show", "task-1")["work"]["status"] == "completed"
    assert "blockers or the conflicting claim" in terminal.card(ben)
    terminal.write("session", "end", "--session", ben, "--outcome", "ended")

    # Night: the record of the day proves itself, and Ana's part of it is still there.
    assert terminal.run("journal", "verify")["ok"] is True
    assert set(terminal.run("journal", "rebuild")["rows_corrected"].values()) == {0}
    old = terminal.run("session", "show", ana)["session"]
    assert (old["status"], old["agent_id"]) == ("interrupted", "ana")
    history = terminal.run("work", "history", "task-1", "--session", ana, "--limit", "100")["events"]
    assert "client.compaction_observed" in {event["type"] for event in history}


def _restart(terminal: Terminal, session: str) -> dict[str, Any]:
    return terminal.run(
        *("session", "restart-estimate", "--session", session),
        *("--fixed-tokens", "9000", "--fixed-basis", "host_reported"),
        *("--tools-tokens", "12000", "--tools-basis", "host_reported"),
    )
