"""What a person and a program see: text views of every command, errors, colour."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from awr.errors import AwrError, InvalidInput, RevisionConflict, io_error
from awr.operations.registry import OPERATIONS
from awr.project import Project
from awr.surfaces.cli.output import print_error
from awr.surfaces.cli.views import view_of
from tests.domain.test_compaction import observation
from tests.support.cli import Outcome, call, spawn
from tests.support.projects import begin_session, make_project, revision

RECORDS = Path(__file__).parents[1] / "fixtures" / "hosts"
ESCAPE = "\x1b"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project").root


def awr(capsys: Capture, root: Path, *words: str) -> str:
    """Run a command that must succeed and return its text, which must be free of colour codes."""
    done = call(capsys, "--project", root, *words)
    assert (done.code, done.err) == (0, ""), done
    assert done.out.strip()
    assert ESCAPE not in done.out
    return done.out


def test_every_command_prints_what_it_found_as_text(capsys: Capture, root: Path) -> None:
    labels = ("--agent", "a", "--provider", "p", "--model", "m")
    said = {
        "capabilities": awr(capsys, root, "capabilities"),
        "project.init": awr(capsys, root, "init"),
        "project.status": awr(capsys, root, "status"),
        "source.list": awr(capsys, root, "source", "list"),
        "source.scan": awr(capsys, root, "source", "scan"),
        "source.reindex": awr(capsys, root, "source", "reindex", "--force"),
        "source.show": awr(capsys, root, "source", "show", "work-ledger.yaml"),
        "work.show": awr(capsys, root, "work", "show", "parse"),
        "session.start": awr(
            capsys,
            *(root, "session", "start", *labels, "--work", "parse", "--claim", "--ttl-ms", str(2**53)),
            *("--conversation", "thread", "--expected-revision", "3"),
        ),
        "session.list": awr(capsys, root, "session", "list"),
        "session.show": awr(capsys, root, "session", "show", "--conversation", "thread"),
    }
    session = said["session.start"].split()[1]
    request = {"session": session, "expected_revision": 4, "observation": msgspec.to_builtins(observation())}
    (root / "observation.json").write_text(json.dumps(request))
    observe = awr(capsys, root, "session", "compaction", "observe", "--input", "observation.json")
    event = next(line for line in observe.splitlines() if line.startswith("recorded: event")).split()[2].rstrip(",")
    said |= {
        "compaction.observe": observe,
        "compaction.inspect": awr(
            capsys, root, "session", "compaction", "inspect", "--session", session, "--include-observation"
        ),
        "compaction.defer": awr(
            capsys,
            *(root, "session", "compaction", "defer", "--session", session),
            *("--observation-event-id", event, "--expected-revision", "5"),
        ),
        "compaction.import": awr(
            capsys,
            *(root, "session", "compaction", "import", "--session", session),
            *("--transcript", str(RECORDS / "public-claude-subagent-sidechain.jsonl")),
        ),
        "event.append": awr(
            capsys,
            *(root, "event", "append", "--event-type", "note.added", "--summary", "Chose SQLite"),
            *("--payload", '{"count": 2}', "--expected-revision", "6"),
        ),
        "event.show": awr(capsys, root, "event", "show", event, "--full"),
        "event.history": awr(capsys, root, "event", "history", "--limit", "2"),
        "work.history": awr(capsys, root, "work", "history", "parse"),
        "journal.verify": awr(capsys, root, "journal", "verify"),
        "journal.rebuild": awr(capsys, root, "journal", "rebuild"),
        "session.end": awr(capsys, root, "session", "end", "--session", session, "--expected-revision", "7"),
        "report": awr(capsys, root, "report", str(RECORDS / "claude-auto-allow-transcript.jsonl")),
    }
    assert set(said) <= {one.name for one in OPERATIONS}
    assert "3 work items" in said["project.status"]
    assert "ready (1):" in said["project.status"]
    assert "acceptance 1: Every sample parses" in said["work.show"]
    assert "handoff candidate" in said["compaction.observe"]
    assert "54.7% (threshold 50%)" in said["compaction.inspect"]
    assert "before 230000, after 140000" in said["compaction.inspect"]
    assert "deferred" in said["compaction.defer"]
    assert "subagent" in said["compaction.import"]
    assert "more: --cursor" in said["event.history"]
    assert "client.compaction_observed" in said["work.history"]
    assert "The journal is as it was written." in said["journal.verify"]
    assert "0 rows corrected" in said["journal.rebuild"]
    assert "1 claim closed" in said["session.end"]


@pytest.mark.parametrize("view", ["action", "summary", "full"])
def test_every_view_of_the_status_prints_the_project_and_its_revision(capsys: Capture, root: Path, view: str) -> None:
    assert "revision 2" in awr(capsys, root, "status", "--view", view)


def test_a_cursor_that_was_printed_can_be_pasted(capsys: Capture, root: Path) -> None:
    text = awr(capsys, root, "event", "history", "--limit", "1")
    cursor = text.rpartition("more: --cursor ")[2].strip().strip("'")
    assert "source.registered" in awr(capsys, root, "event", "history", "--cursor", cursor)


def test_an_empty_answer_says_so(capsys: Capture, root: Path) -> None:
    assert "No sessions" in awr(capsys, root, "session", "list")
    assert "No events match" in awr(capsys, root, "event", "history", "--session", "nothing")
    assert "more" not in awr(capsys, root, "work", "history", "parse")


def test_work_that_is_not_ready_says_why_in_text(capsys: Capture, root: Path) -> None:
    assert "not ready: parse: the status is planned" in awr(capsys, root, "work", "show", "report")


def test_json_output_is_one_object_on_one_line(capsys: Capture, root: Path) -> None:
    for words in (("status",), ("source", "list"), ("event", "history"), ("journal", "verify"), ("capabilities",)):
        done = call(capsys, "--json", "--project", root, *words)
        assert done.value()["ok"] is True
        assert done.out.count("\n") == 1


@pytest.mark.parametrize("force", [{}, {"TERM": "xterm-256color"}, {"COLORTERM": "truecolor"}])
def test_nothing_that_is_piped_has_colour(root: Path, force: dict[str, str]) -> None:
    for words in (("status",), ("journal", "verify"), ("work", "show", "report"), ("work", "show", "nothing")):
        done = spawn("--project", root, *words, environment=force)
        assert ESCAPE not in done.out + done.err
        assert done.out or done.err


def test_a_stored_escape_sequence_does_not_reach_a_pipe(capsys: Capture, root: Path) -> None:
    (root / "work-ledger.yaml").write_text('work_items:\n  - {id: a, title: "\\e[31mred", status: planned}\n')
    done = call(capsys, "--project", root, "status")
    assert ESCAPE not in done.out + done.err


def test_an_operation_without_a_view_of_its_own_shows_its_fields(capsys: Capture) -> None:
    view_of("no.such.operation")(observation())
    assert "compaction_id:" in capsys.readouterr().out


def printed(capsys: Capture, error: AwrError, *, as_json: bool) -> Outcome:
    print_error(error, as_json=as_json)
    captured = capsys.readouterr()
    return Outcome(1, captured.out, captured.err)


def test_an_error_for_a_person_says_what_got_expected_and_next(capsys: Capture) -> None:
    error = InvalidInput("it is wrong", got="5 bytes", expected="4 bytes", next_step="cut it", location={"line": 3})
    done = printed(capsys, error, as_json=False)
    assert done.out == ""
    assert done.err.splitlines() == [
        "error: InvalidInput: it is wrong",
        "  got:      5 bytes",
        "  expected: 4 bytes",
        "  where:    line 3",
        "  next:     cut it",
    ]


def test_an_error_for_a_program_is_one_line_of_json_without_absent_details(capsys: Capture) -> None:
    done = printed(capsys, InvalidInput("it is wrong"), as_json=True)
    assert json.loads(done.err) == {"code": "InvalidInput", "message": "it is wrong"}
    assert printed(capsys, RevisionConflict(expected=1, actual=2), as_json=True).error("RevisionConflict")[
        "details"
    ] == {
        "expected": 1,
        "actual": 2,
        "next_step": "look at what changed, then repeat the write with expected revision 2",
    }


def test_a_refusal_of_the_system_names_the_file_and_not_its_folder() -> None:
    error = io_error(OSError(28, "No space left on device", "/home/somebody/secret-folder/state.db"))
    assert error.details["got"] == "state.db"
    assert "somebody" not in str(error.report())
    assert io_error(OSError()).details["got"] == "a file or folder"


def test_the_text_of_an_error_is_the_same_contract_as_its_json(capsys: Capture, root: Path) -> None:
    text = call(capsys, "--project", root, "work", "show", "nothing")
    body = call(capsys, "--json", "--project", root, "work", "show", "nothing").error("NotFound")
    assert (text.code, text.out) == (1, "")
    assert body["message"] in text.err
    assert body["details"]["next_step"] in text.err
    with_revision = call(
        capsys,
        *("--project", root, "event", "append", "--event-type", "n.a", "--summary", "x"),
        *("--expected-revision", str(revision_of(root) + 1)),
    )
    assert "RevisionConflict" in with_revision.err


def revision_of(root: Path) -> int:
    from awr.project import Project

    return revision(Project.open(root))


def on_a_terminal(arguments: list[str], *, environment: dict[str, str]) -> str:
    """Run the program on a terminal of its own and return all it wrote there."""
    master, slave = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "awr", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={"PATH": os.environ["PATH"], "TERM": "xterm", **environment},
    ) as running:
        running.wait(timeout=60)
    os.close(slave)
    text = os.read(master, 65536).decode()
    os.close(master)
    return text


def test_colour_is_shown_on_a_terminal_and_not_where_nobody_wants_it(tmp_path: Path) -> None:
    call = ["--project", str(tmp_path), "status"]
    assert "\x1b[31m" in on_a_terminal(call, environment={})
    assert "\x1b[" not in on_a_terminal(call, environment={"NO_COLOR": "1"})


@pytest.mark.parametrize("json_flag", [(), ("--json",)])
def test_a_secret_that_is_on_record_is_held_back_from_the_answer(
    root: Path, capsys: Capture, json_flag: tuple[str, ...]
) -> None:
    session = begin_session(Project.open(root))
    secret = "ghp_" + "a1B2" * 9
    connection = sqlite3.connect(root / ".awr" / "state.db", isolation_level=None)
    connection.execute("UPDATE sessions SET model = ?", (secret,))
    connection.close()
    done = call(capsys, "--project", root, *json_flag, "session", "show", session)
    assert done.code == 1
    assert "RuleViolation" in done.err
    assert secret not in done.out + done.err
