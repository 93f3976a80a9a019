"""The command line as people and programs use it: exit codes, streams, input files, and no traceback ever."""

from __future__ import annotations

import io
import json
import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from awr.domain.compaction import Observation
from awr.journal.journal import Journal
from awr.operations.registry import OPERATIONS, Operation
from awr.surfaces.cli.app import program, run
from tests.domain.test_compaction import observation
from tests.support.cli import AWR, Outcome, call, spawn, tree
from tests.support.projects import begin_session, make_project, revision

SECRET = "sk-ant-0123456789abcdefghij"
MARKER = "zqMARKERzq"
LIMIT = 64 * 1024
Capture = pytest.CaptureFixture[str]

each = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.command)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project").root


@pytest.fixture
def session(root: Path) -> str:
    from awr.project import Project

    return begin_session(Project.open(root))


def awr(capsys: Capture, root: Path, *words: str) -> Outcome:
    return call(capsys, "--json", "--project", root, *words)


def request(session: str, *, expected_revision: int = 3, **changes: Any) -> dict[str, Any]:
    return {
        "session": session,
        "expected_revision": expected_revision,
        "observation": msgspec.to_builtins(observation(**changes)),
    }


# Exit codes and streams


def test_a_success_is_exit_0_with_one_object_on_standard_output(capsys: Capture, root: Path) -> None:
    assert awr(capsys, root, "status").value()["project_revision"] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "--project", "ROOT", "source", "list"),
        ("--project", "ROOT", "source", "--json", "list"),
        ("--project", "ROOT", "source", "list", "--json"),
        ("source", "list", "--json", "--project", "ROOT"),
        ("source", "--project", "ROOT", "list", "--json"),
    ],
)
def test_json_and_project_may_stand_before_and_behind_the_command(
    capsys: Capture, root: Path, words: tuple[str, ...]
) -> None:
    done = call(capsys, *(str(root) if word == "ROOT" else word for word in words))
    assert done.value()["sources"][0]["locator"] == "work-ledger.yaml"


def test_a_refusal_is_exit_1_with_one_object_on_standard_error(capsys: Capture, root: Path) -> None:
    body = awr(capsys, root, "work", "show", "nothing").error("NotFound")
    assert set(body) == {"code", "message", "details"}


@pytest.mark.parametrize("place", [("--json", "nonsense"), ("nonsense", "--json"), ("--json", "sources")])
def test_an_unknown_top_level_command_is_unsupported_with_exit_1(capsys: Capture, place: tuple[str, ...]) -> None:
    body = call(capsys, *place).error("Unsupported")
    assert "status" in body["details"]["expected"]
    assert "nonsense" not in json.dumps(body)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("source",),
        ("source", MARKER),
        ("status", f"--{MARKER}"),
        ("status", f"-{MARKER}"),
        ("status", MARKER),
        ("status", "--view", MARKER),
        ("work", "show"),
        ("session", "list", "--limit", MARKER),
        ("session", "list", "--limit", "0"),
        ("session", "list", "--limit", "99999999999999999999999"),
        ("session", "start", "--agent", MARKER),
        ("event", "append", "--event-type", MARKER, "--summary", MARKER, "--expected-revision", "-1"),
        ("session", "compaction", "observe"),
        ("session", "compaction", "observe", "--input"),
        ("--project",),
    ],
)
def test_a_wrong_call_is_exit_2_and_bad_input_without_an_echo(capsys: Capture, words: tuple[str, ...]) -> None:
    body = call(capsys, "--json", *words).error("InvalidInput", exit_code=2)
    assert MARKER not in json.dumps(body)
    assert body["details"]["next_step"].endswith("--help")
    text = call(capsys, *words)
    assert text.code == 2
    assert text.err.strip()


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(
    "words",
    [
        (SECRET,),
        ("status", SECRET),
        ("status", f"--{SECRET}"),
        ("status", "--view", SECRET),
        ("session", "list", "--limit", SECRET),
        ("work", "show", SECRET),
        ("--project", SECRET, "status"),
        ("event", "append", "--event-type", "n.a", "--summary", f"password={SECRET}", "--expected-revision", "2"),
        ("session", "compaction", "observe", "--input", SECRET),
        ("init", "--goal", SECRET, "--help"),
    ],
)
def test_a_secret_anywhere_in_the_call_is_refused_before_anything_and_not_echoed(
    capsys: Capture, root: Path, words: tuple[str, ...], as_json: bool
) -> None:
    before = tree(root)
    done = call(capsys, *(["--json"] if as_json else []), *words, "--project", root)
    assert (done.code, done.out) == (1, "")
    assert SECRET not in done.err
    assert "RuleViolation" in done.err
    assert tree(root) == before


def test_help_and_version_are_exit_0(capsys: Capture) -> None:
    for words in (("--help",), ("-h",), ("--version",), ("source", "--help"), ("session", "compaction", "-h")):
        done = call(capsys, *words)
        assert (done.code, done.err) == (0, "")
        assert done.out


@each
def test_the_help_of_a_command_has_its_summary_its_options_and_its_example(
    capsys: Capture, operation: Operation
) -> None:
    done = call(capsys, *operation.command.split(), "--help")
    assert (done.code, done.err) == (0, "")
    said = " ".join(done.out.split())
    assert operation.summary in said
    assert f"Example: {operation.example}" in said
    assert "--json" in said


def test_the_help_of_the_demo_has_its_example(capsys: Capture) -> None:
    done = call(capsys, "demo", "--help")
    assert done.code == 0
    assert "Example: awr demo" in done.out


def test_help_of_the_whole_names_every_command(capsys: Capture) -> None:
    said = call(capsys, "--help").out
    for name in {one.command.split()[0] for one in OPERATIONS} | {"demo", "serve"}:
        assert f"  {name} " in said


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one.scope == "project"], ids=lambda operation: operation.name
)
def test_a_folder_that_is_no_project_is_said_plainly(capsys: Capture, tmp_path: Path, operation: Operation) -> None:
    words = shlex.split(operation.example)[1:]
    done = call(capsys, "--project", tmp_path, *words, "--json")
    body = done.error("NotFound")
    assert "awr init" in body["details"]["next_step"]
    assert list(tmp_path.iterdir()) == []


# Input files


def test_an_input_file_counts_from_the_project_folder(
    capsys: Capture, root: Path, session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (root / "in").mkdir()
    (root / "in" / "o.json").write_text(json.dumps(request(session)))
    done = awr(capsys, root, "session", "compaction", "observe", "--input", "in/o.json")
    assert done.value()["state"] == "handoff_candidate"


def test_an_absolute_input_file_is_taken_as_it_is(capsys: Capture, root: Path, session: str, tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    path.write_text(json.dumps(request(session)))
    assert awr(capsys, root, "session", "compaction", "observe", "--input", str(path)).value()["ok"] is True


def test_standard_input_is_read_for_a_dash(root: Path, session: str) -> None:
    words = ("--json", "--project", root, "session", "compaction", "observe", "--input", "-")
    done = spawn(*words, stdin=json.dumps(request(session)).encode())
    assert done.value()["project_revision"] == 4


def test_standard_input_that_is_closed_is_an_error_and_no_fault(root: Path) -> None:
    command = shlex.join([*AWR, "--json", "--project", str(root), "session", "compaction", "observe", "--input", "-"])
    done = subprocess.run(["sh", "-c", f"{command} <&-"], capture_output=True, text=True, check=False)
    body = Outcome(done.returncode, done.stdout, done.stderr)
    assert body.code == 1
    assert json.loads(body.err)["code"] in {"InvalidInput", "Io", "NotFound"}


def padded(size: int, session: str) -> bytes:
    data = json.dumps(request(session)).encode()
    return data + b" " * (size - len(data))


def test_an_input_of_exactly_64_kib_is_read(capsys: Capture, root: Path, session: str) -> None:
    (root / "o.json").write_bytes(padded(LIMIT, session))
    assert awr(capsys, root, "session", "compaction", "observe", "--input", "o.json").value()["ok"] is True


@pytest.mark.parametrize("size", [LIMIT + 1, 65 * 1024 + 1, 5 * LIMIT])
def test_a_larger_input_is_refused(capsys: Capture, root: Path, session: str, size: int) -> None:
    (root / "o.json").write_bytes(padded(size, session))
    body = awr(capsys, root, "session", "compaction", "observe", "--input", "o.json").error("InvalidInput")
    assert body["details"]["expected"] == f"at most {LIMIT} bytes"
    words = ("--json", "--project", root, "session", "compaction", "observe", "--input", "-")
    spawn(*words, stdin=padded(size, session)).error("InvalidInput")


def test_an_input_that_is_missing_is_not_found(capsys: Capture, root: Path) -> None:
    awr(capsys, root, "session", "compaction", "observe", "--input", "nothing.json").error("NotFound")


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "endless device"])
def test_an_input_that_is_no_file_is_refused_at_once(capsys: Capture, root: Path, kind: str) -> None:
    path = {"device": "/dev/null", "endless device": "/dev/zero"}.get(kind, str(root / "input"))
    if kind == "folder":
        (root / "input").mkdir()
    elif kind == "pipe":
        os.mkfifo(root / "input")
    body = awr(capsys, root, "session", "compaction", "observe", "--input", path).error("InvalidInput")
    assert body["details"]["got"] == ("a folder" if kind == "folder" else "a device or pipe")


def test_an_input_behind_a_file_or_with_a_name_too_long_is_one_error(capsys: Capture, root: Path) -> None:
    for name in ("work-ledger.yaml/x", "x" * 5000):
        done = awr(capsys, root, "session", "compaction", "observe", "--input", name)
        assert (done.code, done.out) == (1, "")
        assert json.loads(done.err)["code"] in {"Io", "NotFound", "InvalidInput"}


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"\xff", b'{"session": "a", "session": "b"}', b'{"zqMARKERzq": 1}', b"[" * 60000],
)
def test_an_input_that_is_no_request_is_bad_input_without_an_echo(capsys: Capture, root: Path, data: bytes) -> None:
    (root / "o.json").write_bytes(data)
    body = awr(capsys, root, "session", "compaction", "observe", "--input", "o.json").error("InvalidInput")
    assert MARKER not in json.dumps(body)


@pytest.mark.parametrize("field", ["compaction_id", "model", "source"])
def test_a_secret_in_an_input_is_refused_without_an_echo(
    capsys: Capture, root: Path, session: str, field: str
) -> None:
    changes: dict[str, Any] = {field: SECRET}
    (root / "o.json").write_text(json.dumps(request(session, **changes)))
    done = awr(capsys, root, "session", "compaction", "observe", "--input", "o.json")
    assert SECRET not in json.dumps(done.error("RuleViolation"))


@pytest.mark.parametrize("field", [name for name in Observation.__struct_fields__ if name != "usage"])
def test_an_input_with_half_a_character_is_bad_input_and_no_fault(
    capsys: Capture, root: Path, session: str, field: str
) -> None:
    body = request(session)
    body["observation"][field] = "\ud800"
    (root / "o.json").write_text(json.dumps(body))
    awr(capsys, root, "session", "compaction", "observe", "--input", "o.json").error("InvalidInput")


def test_a_session_of_half_a_character_is_refused_and_no_fault(capsys: Capture, root: Path) -> None:
    (root / "o.json").write_text(json.dumps(request("\ud800")))
    done = awr(capsys, root, "session", "compaction", "observe", "--input", "o.json")
    assert json.loads(done.err)["code"] in {"InvalidInput", "NotFound"}


@pytest.mark.parametrize(
    "cursor", ["", "{", "5", "[]", "{}", '{"project_id": "zqMARKERzq"}', '{"a": NaN}', '{"a": 1, "a": 2}']
)
def test_a_cursor_that_is_none_is_bad_input_without_an_echo(capsys: Capture, root: Path, cursor: str) -> None:
    done = awr(capsys, root, "event", "history", "--cursor", cursor)
    assert done.code in {1, 2}
    assert json.loads(done.err)["code"] == "InvalidInput"
    assert MARKER not in done.err


def test_bytes_that_are_no_text_in_the_call_are_an_error_and_no_fault(root: Path) -> None:
    for words in (("work", "show"), ("session", "show"), ("event", "show"), ("source", "show"), ("work", "history")):
        command = [*map(os.fsencode, [*AWR, "--json", "--project", str(root), *words]), b"\xff\xfe"]
        done = subprocess.run(command, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (1, b"")
        assert json.loads(done.stderr)["code"] in {"InvalidInput", "NotFound"}


# Projects that cannot be used


def test_a_folder_that_does_not_exist_is_not_found(capsys: Capture, tmp_path: Path) -> None:
    awr(capsys, tmp_path / "nothing", "status").error("NotFound")


def test_a_file_in_the_place_of_a_project_is_bad_input(capsys: Capture, root: Path) -> None:
    awr(capsys, root / "work-ledger.yaml", "status").error("InvalidInput")


@pytest.mark.parametrize("name", [".awr", ".awr/state.db", ".awr/project.toml"])
def test_a_link_in_the_place_of_awrs_own_is_refused(capsys: Capture, root: Path, name: str) -> None:
    real = root.parent / "real"
    (root / name).rename(real)
    (root / name).symlink_to(real)
    before = tree(root.parent)
    for words in (("status",), ("session", "list"), ("journal", "verify"), ("init", "--accept")):
        body = awr(capsys, root, *words).error("RuleViolation")
        assert body["message"] == f"{name} is a symbolic link"
    assert tree(root.parent) == before


def test_a_project_reached_through_a_link_is_the_same_project(capsys: Capture, root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    expected = awr(capsys, root, "status").value()["project_id"]
    assert awr(capsys, link, "status").value()["project_id"] == expected


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100, b"SQLite format 3\x00" + b"\x00" * 4096])
def test_a_database_that_is_none_is_a_storage_error_and_left_alone(
    capsys: Capture, root: Path, content: bytes
) -> None:
    (root / ".awr" / "state.db").write_bytes(content)
    for words in (("status",), ("session", "list"), ("journal", "verify"), ("journal", "rebuild"), ("init",)):
        body = awr(capsys, root, *words).error("Storage")
        assert body["details"]["next_step"]
    assert (root / ".awr" / "state.db").read_bytes() == content


def test_a_database_with_a_torn_page_is_a_storage_error(capsys: Capture, root: Path) -> None:
    path = root / ".awr" / "state.db"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(bytes(data))
    for words in (("session", "list"), ("event", "history"), ("journal", "verify")):
        awr(capsys, root, *words).error("Storage")


def test_text_in_the_database_that_is_no_text_is_an_error_without_an_echo(
    capsys: Capture, root: Path, session: str
) -> None:
    broken = MARKER.encode() + b"\xff"
    with sqlite3.connect(root / ".awr" / "state.db") as connection:
        connection.execute("UPDATE sessions SET model = CAST(? AS TEXT) WHERE id = ?", (broken, session))
    connection.close()
    for words in (("session", "list"), ("session", "show", session)):
        done = awr(capsys, root, *words)
        assert (done.code, done.out) == (1, "")
        assert json.loads(done.err)["code"] == "Storage"
        assert MARKER not in done.err


@pytest.mark.parametrize("application_id", [0x41575231, 0, 7])
def test_a_foreign_database_is_a_storage_error_and_left_alone(
    capsys: Capture, root: Path, application_id: int
) -> None:
    path = root / ".awr" / "state.db"
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE projects (id TEXT)")
        connection.execute(f"PRAGMA application_id = {application_id}")
    connection.close()
    before = path.read_bytes()
    for words in (("status",), ("source", "reindex"), ("journal", "rebuild"), ("init", "--accept")):
        awr(capsys, root, *words).error("Storage")
    assert path.read_bytes() == before


def test_a_newer_database_is_a_storage_error(capsys: Capture, root: Path) -> None:
    with sqlite3.connect(root / ".awr" / "state.db") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    for words in (("status",), ("source", "reindex"), ("journal", "verify")):
        assert "newer" in awr(capsys, root, *words).error("Storage")["message"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait milliseconds, not seconds, for a database that another process holds."""
    defaults = Journal.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "busy_ms", 30)


@pytest.fixture
def busy(root: Path, impatient: None) -> Iterator[None]:
    connection = sqlite3.connect(root / ".awr" / "state.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("ROLLBACK")
    connection.close()


@pytest.mark.usefixtures("busy")
def test_a_database_in_use_refuses_a_write_and_still_answers_a_reader(capsys: Capture, root: Path) -> None:
    words = ("event", "append", "--event-type", "note.added", "--summary", "x", "--expected-revision", "2")
    body = awr(capsys, root, *words).error("Storage")
    assert "in use" in body["message"]
    awr(capsys, root, "journal", "rebuild").error("Storage")
    for reading in (("status",), ("session", "list"), ("journal", "verify")):
        assert awr(capsys, root, *reading).value()["project_revision"] == 2


def test_an_unreadable_disk_image_of_a_write_ahead_log_is_an_error(capsys: Capture, root: Path) -> None:
    (root / ".awr" / "state.db-wal").mkdir()
    done = awr(capsys, root, "session", "list")
    assert (done.code, done.out) == (1, "")
    assert json.loads(done.err)["code"] in {"Io", "Storage"}


# Tampered journals


def tamper(root: Path, statement: str) -> None:
    connection = sqlite3.connect(root / ".awr" / "state.db", isolation_level=None)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement)
    for _, sql in triggers:
        connection.execute(sql)
    connection.close()


def test_a_broken_journal_is_a_result_and_an_error_on_separate_streams(capsys: Capture, root: Path) -> None:
    tamper(root, "UPDATE events SET summary = 'forged' WHERE position = 2")
    done = awr(capsys, root, "journal", "verify")
    assert done.code == 1
    assert json.loads(done.out)["broken"]["position"] == 2
    assert json.loads(done.err)["code"] == "Storage"
    text = call(capsys, "--project", root, "journal", "verify")
    assert text.code == 1
    assert "as it was written." not in text.out
    awr(capsys, root, "journal", "rebuild").error("Storage")


def test_a_tampered_projection_is_rebuilt(capsys: Capture, root: Path, session: str) -> None:
    tamper(root, "UPDATE sessions SET model = 'forged'")
    assert awr(capsys, root, "session", "show", session).value()["session"]["model"] == "forged"
    assert awr(capsys, root, "journal", "rebuild").value()["rows_corrected"]["sessions"] == 2
    assert awr(capsys, root, "session", "show", session).value()["session"]["model"] == "model"
    assert awr(capsys, root, "journal", "verify").value()["ok"] is True


def test_an_incomplete_reindex_is_a_result_and_an_error_each_time(capsys: Capture, root: Path) -> None:
    (root / "work-ledger.yaml").unlink()
    for _ in range(2):
        done = awr(capsys, root, "source", "reindex")
        assert done.code == 1
        assert json.loads(done.out)["ok"] is False
        assert json.loads(done.err)["code"] == "SourceStale"


# Pipes and processes


def test_the_program_runs_as_a_module_and_says_its_version(tmp_path: Path) -> None:
    from importlib.metadata import version

    done = spawn("--version", cwd=tmp_path)
    assert done.code == 0
    assert version("awr") in done.out


def test_the_present_folder_is_the_project_when_none_is_named(root: Path) -> None:
    assert spawn("--json", "source", "list", cwd=root).value()["ok"] is True


@pytest.mark.parametrize("words", [("--help",), ("event", "history"), ("--json", "capabilities")])
def test_a_reader_that_leaves_early_causes_no_complaint(root: Path, words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*AWR, "--project", str(root), *words], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode in {0, 1}


def test_output_that_has_no_room_is_an_error_and_no_traceback(root: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*AWR, "--json", "--project", str(root), "event", "history"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_a_reading_command_leaves_every_file_of_the_project_alone(root: Path, session: str) -> None:
    before = tree(root)
    for words in (
        ("session", "list"),
        ("session", "show", session),
        ("event", "history"),
        ("source", "list"),
        ("journal", "verify"),
        ("work", "history", "parse"),
        ("session", "compaction", "inspect", "--session", session),
        ("capabilities",),
    ):
        assert spawn("--json", "--project", root, *words).code == 0
    after = tree(root)
    assert {name: after[name] for name in before if name != ".awr/state.db"} == {
        name: before[name] for name in before if name != ".awr/state.db"
    }
    assert set(after) == set(before)


# The demo


def test_the_demo_tells_its_story_and_leaves_nothing_behind(home_folder: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = spawn("demo", cwd=tmp_path, environment={"TMPDIR": str(temporary)})
    assert (done.code, done.err) == (0, "")
    said = " ".join(done.out.split())
    assert "An automatic compaction left the context at or above the threshold." in said
    assert "deferred" in said
    assert "The journal is as it was written." in said
    assert "\x1b" not in done.out
    assert list(home_folder.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"]
    assert list(temporary.iterdir()) == []


def test_the_demo_is_kept_on_request_and_can_be_looked_at(capsys: Capture, tmp_path: Path) -> None:
    kept = tmp_path / "new" / "folder"
    done = call(capsys, "demo", "--keep", kept)
    assert (done.code, done.err) == (0, "")
    found = awr(capsys, kept / "project", "event", "history", "--event-type", "client.compaction_observed").value()
    assert len(found["events"]) == 3
    assert awr(capsys, kept / "project", "journal", "verify").value()["ok"] is True
    again = call(capsys, "--json", "demo", "--keep", kept)
    assert again.error("InvalidInput")["details"]["next_step"]


@pytest.mark.parametrize("kind", ["file", "filled"])
def test_the_demo_refuses_a_place_that_is_taken(capsys: Capture, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "taken"
    if kind == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "mine").write_text("mine")
    before = tree(tmp_path)
    call(capsys, "--json", "demo", "--keep", place).error("InvalidInput")
    assert tree(tmp_path) == before


def test_the_demo_works_in_an_empty_folder(capsys: Capture, tmp_path: Path) -> None:
    assert call(capsys, "demo", "--keep", tmp_path).code == 0
    assert (tmp_path / "project" / ".awr" / "state.db").is_file()


# Anything typed


def _words() -> list[str]:
    """Every word that the command tree knows, and some that it does not."""
    found = {"", "-", "--", "x", "-5", "0", "1", "99999999999999999999", "{}", "[]", "é", "a b", "\udcff", "main"}
    found |= {"--version", "--help", "-h", "--json", "parse", "work-ledger.yaml", "../..", "/dev/null", "null"}

    def walk(command: click.Command) -> None:
        context = click.Context(command)
        for parameter in command.get_params(context):
            found.update(parameter.opts)
            if isinstance(parameter.type, click.Choice):
                found.update(map(str, parameter.type.choices))
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                # The demo plays a story of seconds and the service serves; their own tests call them.
                if child is not None and name not in {"demo", "serve"}:
                    found.add(name)
                    walk(child)

    walk(program())
    return sorted(found - {"--project", "--manifest"})


paths = st.sampled_from([one.command.split() for one in OPERATIONS] + [[]])
#: A typed word may be taken for a path. What is made of it has to land in the folder that the test gave.
typed = st.text(max_size=8).filter(lambda word: "/" not in word and word != "..")


@settings(max_examples=400, deadline=None)
@example(path=["session", "show"], words=["\udcff"])
@example(path=["event", "history"], words=["--cursor", '{"project_id":"x","project_revision":1e3}'])
@example(path=["session", "list"], words=["--before-revision", "0", "--json"])
@given(path=paths, words=st.lists(st.sampled_from(_words()) | typed, max_size=6))
def test_whatever_is_typed_ends_with_an_exit_code_and_never_a_traceback(path: list[str], words: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()
    root = _fuzz_root()
    with redirect_stdout(out), redirect_stderr(err), chdir(root.parent):
        code = run(["--project", str(root), *path, *words])
    said = out.getvalue() + err.getvalue()
    assert code in {0, 1, 2}
    assert "Traceback" not in said
    assert "AWR has a fault" not in said
    if code and "--json" in words:
        assert set(json.loads(err.getvalue().splitlines()[-1])) <= {"code", "message", "details"}


_roots: list[Path] = []


@pytest.fixture(autouse=True, scope="module")
def _fuzz_project(tmp_path_factory: pytest.TempPathFactory) -> None:
    _roots.append(make_project(tmp_path_factory.mktemp("fuzz") / "project").root)


@pytest.fixture(autouse=True)
def _no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))


def _fuzz_root() -> Path:
    return _roots[-1]


def test_the_fuzzed_project_is_still_whole(capsys: Capture) -> None:
    assert awr(capsys, _fuzz_root(), "journal", "verify").value()["ok"] is True
    from awr.project import Project

    assert revision(Project.open(_fuzz_root())) >= 2
