"""An operation called by its name with plain values answers as the command line does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from awr.operations.calling import Answer, call_plain
from awr.operations.registry import operation_named
from tests.support.cli import call as command
from tests.support.projects import LEDGER, begin_session, make_project


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p").root


def called(name: str, arguments: dict[str, Any], folder: Path) -> Answer:
    return call_plain(operation_named(name), arguments, folder=folder)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("capabilities", {"require": ["client.compaction"]}, ["capabilities", "--require", "client.compaction"]),
        ("project.status", {"view": "summary"}, ["status", "--view", "summary"]),
        ("work.show", {"work": "parse"}, ["work", "show", "parse"]),
        ("session.list", {}, ["session", "list"]),
    ],
)
def test_the_answer_is_the_one_that_the_command_prints(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, arguments: dict[str, Any], words: list[str]
) -> None:
    printed = command(capsys, "--project", folder, "--json", *words)
    answer = called(name, arguments, folder)
    assert json.loads(json.dumps(answer.value)) == json.loads(printed.out)
    assert (answer.error, answer.is_error) == (None, False)


def test_a_partial_answer_comes_with_its_problem(tmp_path: Path) -> None:
    ledger = LEDGER.replace("    next_action: Write the grammar\n", "")
    answer = called("work.prepare", {"work": "parse"}, make_project(tmp_path / "p", ledger=ledger).root)
    assert answer.error is not None
    assert answer.error["code"] == "ContextIncomplete"
    assert (answer.body()["ok"], answer.body()["error"]) == (False, answer.error)


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("work.show", {}, "InvalidInput"),
        ("work.show", {"work": "parse", "wrok": 1}, "InvalidInput"),
        ("work.show", {"work": 5}, "InvalidInput"),
        ("work.show", {"work": "nothing"}, "NotFound"),
    ],
)
def test_a_wrong_call_is_refused_as_from_anywhere(
    folder: Path, name: str, arguments: dict[str, Any], code: str
) -> None:
    answer = called(name, arguments, folder)
    assert answer.value is None
    assert answer.body()["code"] == code


def test_a_folder_that_is_no_project_is_said_before_anything_else(tmp_path: Path) -> None:
    assert called("work.show", {"nonsense": 1}, tmp_path).body()["code"] == "NotFound"


def test_a_folder_operation_is_given_the_folder(tmp_path: Path) -> None:
    assert called("project.init", {"goal": "Ship it", "accept": True}, tmp_path).error is None
    assert (tmp_path / ".awr" / "state.db").is_file()


def test_an_answer_with_a_secret_is_held_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awr.operations.session.refuse_secrets", lambda *_, **__: None)
    arguments = {"agent": "ghp_" + "a1" * 12, "provider": "p", "model": "m", "expected_revision": 2}
    assert called("session.start", arguments, folder).body()["code"] == "RuleViolation"
    assert called("session.list", {}, folder).body()["code"] == "RuleViolation"


def test_a_session_that_is_there_is_listed(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    session = begin_session(project)
    assert [one["id"] for one in called("session.list", {"active": True}, project.root).body()["sessions"]] == [
        session
    ]
