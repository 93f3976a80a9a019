"""A pinned program: what is pinned, what is run, what is kept of it, and what its silence means."""

from __future__ import annotations

import json
import os
import select
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.client import ExecutableTransport
from awr.client.argv import COMMANDS, command_line
from awr.client.transport import Answer, Receipts
from awr.errors import CommandFailed, WorkflowRefused
from awr.operations.registry import operation_named
from tests.support.projects import Clock, revision
from tests.support.workflows import (
    VERSION,
    acknowledged,
    begun,
    make_program,
    observation,
    pinned,
    started,
    state_of,
)


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return path


def ask(program: Path, folder: Path, **arguments: Any) -> Answer:
    receipts = Receipts(folder / "receipts")
    return pinned(program).call("project.status", arguments, project=folder, receipts=receipts, clock=Clock())


def receipt(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "receipts" / "receipt.json").read_bytes())
    return found


def test_a_program_that_changes_between_two_calls_is_not_run(tmp_path: Path) -> None:
    program = make_program(tmp_path / "awr")
    project, workflow = begun(tmp_path, transport=pinned(program))
    before = revision(project)
    kept = program.read_bytes()
    program.write_bytes(kept + b"# changed\n")
    calls: list[Any] = [
        workflow.context,
        workflow.inspect,
        workflow.compaction,
        lambda: workflow.observe_compaction(observation()),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="not the one that was pinned"):
            call()
    assert (revision(project), state_of(project)["pending"]) == (before, None)
    program.write_bytes(kept)
    workflow.observe_compaction(observation())


@pytest.mark.parametrize("how", ["digest", "relative", "missing"])
def test_a_pin_that_does_not_hold_is_refused_at_once(tmp_path: Path, how: str) -> None:
    program = make_program(tmp_path / "awr")
    binary = {"digest": program, "relative": Path("awr"), "missing": tmp_path / "nothing"}[how]
    with pytest.raises(WorkflowRefused, match="not the one that was pinned"):
        ExecutableTransport(binary, sha256="ab" * 32, version=VERSION)


def test_another_version_than_the_stated_one_is_refused_before_a_state_is_made(tmp_path: Path) -> None:
    with pytest.raises(WorkflowRefused) as refused:
        started(tmp_path, transport=pinned(make_program(tmp_path / "awr"), stated="9.9.9"))
    assert refused.value.details["got"] == "another program version than the stated one"
    assert not (tmp_path / "state" / "workflow.json").exists()


def test_what_is_run_is_written_down_before_and_how_it_ended_after(tmp_path: Path) -> None:
    copy = tmp_path / "before.json"
    program = script(tmp_path / "awr", f'cp "{tmp_path}/receipts/receipt.json" {copy}; echo "{{}}"; echo warn >&2')
    answer = ask(program, tmp_path, view="summary")
    assert answer.ok
    before = json.loads(copy.read_bytes())
    assert before["outcome"] == "pending"
    assert before["argv"] == [str(program), "--project", str(tmp_path), "--json", "status", "--view=summary"]
    assert before["binary_sha256"] == pinned(program).identity()["sha256"]
    after = receipt(tmp_path)
    assert (after["outcome"], after["exit_code"], after["stdout"]) == ("returned", 0, "stdout")
    assert before.items() <= {**after, "outcome": "pending"}.items()
    assert (tmp_path / "receipts" / "stderr").read_text() == "warn\n"
    with pytest.raises(FileExistsError):
        Receipts(tmp_path / "receipts")


@pytest.mark.parametrize(
    ("body", "known", "code"),
    [
        ("kill -9 $$", False, "CommandFailed"),
        ("exit 3", True, "CommandFailed"),
        ('echo \'{"code":"NotFound","message":"no"}\' >&2; exit 1', True, "NotFound"),
        ('echo warning >&2; echo \'{"code":"NotFound","message":"no"}\' >&2; exit 1', True, "NotFound"),
        ("echo '[1]'", True, None),
        ("echo 'no json'", True, None),
    ],
)
def test_only_an_object_and_a_zero_is_a_success(tmp_path: Path, body: str, known: bool, code: str | None) -> None:
    answer = ask(script(tmp_path / "awr", body), tmp_path)
    assert (answer.ok, answer.known) == (False, known)
    assert (answer.report["code"] if answer.report else None) == code
    assert receipt(tmp_path)["outcome"] == ("returned" if known else "unknown")


def test_a_partial_answer_keeps_its_body_and_its_error(tmp_path: Path) -> None:
    body = """echo '{"ok":false}'; echo '{"code":"ContextIncomplete","message":"no"}' >&2; exit 1"""
    answer = ask(script(tmp_path / "awr", body), tmp_path)
    assert (answer.known, answer.ok, answer.value) == (True, False, {"ok": False})


def test_a_program_that_cannot_run_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    program = tmp_path / "awr"
    program.write_text("#!/nowhere/at/all\n")
    program.chmod(0o700)
    assert ask(program, tmp_path).known is False
    assert receipt(tmp_path)["exit_code"] is None


def test_a_call_that_never_answers_in_time_ends_with_all_that_it_started(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    program = script(
        tmp_path / "awr", f"exec 3>{fifo}; (read never <{fifo}) & echo '{{\"begun\":1}}'; read never <{fifo}"
    )
    receipts = Receipts(tmp_path / "receipts")
    transport = pinned(program, timeout=3)
    answer = transport.call("project.status", {}, project=tmp_path, receipts=receipts, clock=Clock())
    assert (answer.known, answer.value) == (False, {"begun": 1})
    # The pipe ends when nobody is left who could write to it.
    assert select.select([reader], [], [], 60) == ([reader], [], [])
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_refusal_of_the_program_reaches_the_host_with_its_report(tmp_path: Path) -> None:
    _, workflow = begun(tmp_path, transport=pinned(make_program(tmp_path / "awr")))
    acknowledged(workflow)
    with pytest.raises(CommandFailed) as failed:
        workflow.progress("Begun", "Go on", expected_revision=1)
    report: Any = failed.value.details["report"]
    assert (report["code"], report["details"]["expected"]) == ("RevisionConflict", 1)
    assert failed.value.details["operation"] == "transition.progress"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_documented_form_of_each_command_is_the_one_of_this_build(name: str) -> None:
    form, operation = COMMANDS[name], operation_named(name)
    assert " ".join(form.words) == operation.command
    assert (form.input_of == "*") == operation.input_file
    fields = {field.name: field.type for field in msgspec.structs.fields(operation.request_type())}
    assert {form.positional, form.input_of} - {None, "*"} <= set(fields)


def test_a_command_line_joins_values_to_their_options() -> None:
    words, given = command_line(
        "work.prepare",
        {"session": "S", "work": "parse", "goals": ["a", "b"], "budget": None, "response_view": "action"},
    )
    assert words == ["work", "prepare", "parse", "--session=S", "--goal=a", "--goal=b", "--response-view=action"]
    assert given is None
    words, given = command_line("transition.complete", {"work": "-w", "reason": "--x", "completion": {"version": 1}})
    assert (words, given) == (["work", "complete", "--reason=--x", "--", "-w"], {"version": 1})
    assert command_line("work.manage", {"work": "w"}) == (["work", "manage"], {"work": "w"})
    assert command_line("session.list", {"active": True, "limit": 5})[0][2:] == ["--active", "--limit=5"]
