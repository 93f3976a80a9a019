"""Writes whose answers are lost, crowds, and projects that are not where they were: nothing happens twice."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from awr.project import Project
from tests.support.owning import own, revision_of
from tests.support.projects import make_project
from tests.support.service import HEADERS, Agent, Running, connected, eventually, serving, token_of
from tests.support.team import GRANTS, Serve, Team

#: Kills the process when the write has happened and its answer is not yet recorded.
DIES_BEFORE_THE_ANSWER = """
import os, signal
from awr.operations import receipts
receipts._finished = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from awr.surfaces.mcp.main import main
main()
"""


def note(agent: Agent, project: str = "alpha", **more: Any) -> dict[str, Any]:
    """Return the arguments of one identified write."""
    return {
        "project": project,
        "request_id": "note-1",
        "event_type": "note.added",
        "summary": "A note",
        "expected_revision": revision_of(agent, project),
        **more,
    }


def notes(project: Project) -> int:
    with project.journal.read() as reader:
        row = reader.database.row("SELECT count(*) AS number FROM events WHERE event_type = 'note.added'")
    assert row is not None
    return int(row["number"])


@contextmanager
def writing(project: Project) -> Iterator[sqlite3.Connection]:
    """Be the one writer of a project's database until the block ends."""
    with closing(sqlite3.connect(project.journal.path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
        finally:
            database.execute("ROLLBACK")


def in_flight(agent: Agent) -> int:
    lines = agent.get("/metrics").content.decode().splitlines()
    return int(next(line for line in lines if line.startswith("awr_mcp_calls_in_flight ")).split()[1])


def request_of(tool: str, arguments: dict[str, Any], client: str) -> bytes:
    """Return a whole HTTP request, for a client that will not wait for its answer."""
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    )
    head = {
        **HEADERS,
        "Host": "localhost",
        "Authorization": f"Bearer {token_of(client)}",
        "Content-Length": len(body),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"POST /mcp HTTP/1.1\r\n{lines}\r\n{body}".encode()


def restarted(team: Team) -> Any:
    return serving(team.registry, clients=tuple(GRANTS))


def test_64_calls_are_let_in_and_one_more_is_refused_at_once(serve: Serve) -> None:
    with serve() as team, team.agent("ada") as ada, ThreadPoolExecutor(64) as pool:
        stated = note(ada)

        def call(number: int) -> bool:
            with team.agent("ada", timeout=60) as one:
                if number == 0:
                    return one.call("awr_event_append", **stated).status == 200
                return one.call("awr_session_list", project="alpha").value()["ok"] is True

        with writing(team.projects["alpha"]):
            held = [pool.submit(call, 0)]
            eventually(lambda: in_flight(ada) == 1)
            held += [pool.submit(call, number) for number in range(1, 64)]
            eventually(lambda: in_flight(ada) == 64)
            refused = ada.call("awr_session_list", project="beta")
            assert (refused.status, refused.rpc_error()["code"]) == (200, -32603)
            assert "receipt" in refused.rpc_error()["message"]
        assert all(one.result(60) for one in held)
        assert team.running.logged(outcome="rpc_-32603")["client"] == "ada"
        assert ada.call("awr_session_list", project="beta").value()["ok"] is True


def test_a_writer_of_one_project_keeps_nobody_of_another_waiting(serve: Serve) -> None:
    with serve() as team, team.agent("ada") as ada, ThreadPoolExecutor(1) as pool, team.agent("bob") as bob:
        stated = note(ada)
        with writing(team.projects["alpha"]):
            held = pool.submit(ada.call, "awr_event_append", **stated)
            eventually(lambda: in_flight(bob) == 1)
            assert bob.call("awr_session_list", project="beta").value()["ok"] is True
            assert not held.done()
        assert held.result(30).value()["ok"] is True


def test_a_client_that_leaves_during_its_write_finds_the_receipt_later(serve: Serve) -> None:
    with serve() as team, team.agent("ada") as ada:
        stated = note(ada)
        with writing(team.projects["alpha"]):
            with connected(team.running) as leaving:
                leaving.sendall(request_of("awr_event_append", stated, "ada"))
                eventually(lambda: in_flight(ada) == 1)
            assert notes(team.projects["alpha"]) == 0
        team.running.logged(tool="awr_event_append", outcome="ok")
        found = ada.call("awr_operation_get", project="alpha", request_id="note-1").value()
        assert found["outcome"] == "recorded"
        again = ada.call("awr_event_append", **stated).value()
        assert again["operation"]["replayed"] is True
        assert notes(team.projects["alpha"]) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_a_call_lets_it_end_first(serve: Serve, number: int) -> None:
    with serve() as team, team.agent("ada") as ada, ThreadPoolExecutor(1) as pool:
        stated = note(ada)
        with team.agent("bob") as bob, writing(team.projects["alpha"]):
            held = pool.submit(ada.call, "awr_event_append", **stated)
            eventually(lambda: in_flight(bob) == 1)
            team.running.process.send_signal(number)
            eventually(lambda: not accepts(team.running))
            assert team.running.process.poll() is None
        assert held.result(30).value()["ok"] is True
        assert team.running.process.wait(30) == 0
        assert notes(team.projects["alpha"]) == 1


def test_a_signal_waits_for_a_write_whose_client_has_left(serve: Serve) -> None:
    with serve() as team, team.agent("bob") as bob:
        with team.agent("ada") as ada:
            stated = note(ada)
        with writing(team.projects["alpha"]):
            with connected(team.running) as leaving:
                leaving.sendall(request_of("awr_event_append", stated, "ada"))
                eventually(lambda: in_flight(bob) == 1)
            team.running.process.send_signal(signal.SIGTERM)
            eventually(lambda: not accepts(team.running))
        assert team.running.process.wait(30) == 0
        assert notes(team.projects["alpha"]) == 1


def accepts(running: Running) -> bool:
    try:
        socket.create_connection(running.address, timeout=5).close()
    except OSError:
        return False
    return True


def test_a_write_whose_process_died_is_unknown_then_settled_and_never_done_twice(serve: Serve) -> None:
    with serve(script=DIES_BEFORE_THE_ANSWER) as team:
        with team.agent("ada") as ada:
            stated = note(ada)
            with connected(team.running) as lost:
                lost.sendall(request_of("awr_event_append", stated, "ada"))
                assert lost.recv(1) == b""
        assert team.running.process.wait(30) == -signal.SIGKILL
        assert notes(team.projects["alpha"]) == 1
        with restarted(team) as running, Agent(running, "ada") as ada:
            found = ada.call("awr_operation_get", project="alpha", request_id="note-1").value()
            assert (found["outcome"], len(found["domain_receipts"])) == ("unknown", 1)
            before = revision_of(ada, "alpha")
            unknown = ada.call("awr_event_append", **stated)
            assert unknown.error("MutationConflict")
            assert unknown.result()["write_outcome"] == "unknown"
            assert ada.call("awr_event_append", **stated).content == unknown.content
            assert revision_of(ada, "alpha") == before
            recover = {"project": "alpha", "request_id": "note-1", "expected_revision": before}
            settled = ada.call("awr_operation_recover", **recover).value()
            assert (settled["write_outcome"], settled["recovered"]) == ("committed", True)
            again = ada.call("awr_event_append", **stated).value()
            assert (again["operation"]["replayed"], again["write_outcome"]) == (True, "committed")
            assert notes(team.projects["alpha"]) == 1


def test_an_answer_that_cannot_be_recorded_is_unknown_and_repeating_changes_nothing(serve: Serve) -> None:
    with serve() as team, team.agent("ada") as ada:
        stated = note(ada)
        with closing(sqlite3.connect(team.projects["alpha"].journal.path)) as database:
            database.execute(
                "CREATE TRIGGER no_answers BEFORE INSERT ON events WHEN NEW.event_type = 'mcp.operation_finished' "
                "BEGIN SELECT RAISE(ABORT, 'the test says no'); END"
            )
        unknown = ada.call("awr_event_append", **stated)
        assert unknown.error("MutationConflict")
        assert unknown.result()["write_outcome"] == "unknown"
        before = revision_of(ada, "alpha")
        assert ada.call("awr_event_append", **stated).content == unknown.content
        assert (revision_of(ada, "alpha"), notes(team.projects["alpha"])) == (before, 1)
        with closing(sqlite3.connect(team.projects["alpha"].journal.path)) as database:
            database.execute("DROP TRIGGER no_answers")
        recover = {"project": "alpha", "request_id": "note-1", "expected_revision": before}
        assert ada.call("awr_operation_recover", **recover).value()["write_outcome"] == "committed"
        assert notes(team.projects["alpha"]) == 1


def test_a_restart_keeps_sessions_receipts_and_waits(serve: Serve) -> None:
    with serve() as team:
        with team.agent("ada") as ada:
            record = own(ada, "alpha")
            listed = ada.call("awr_session_list", project="alpha").value()["sessions"]
        assert team.running.stop() == 0
        with restarted(team) as running, Agent(running, "ada") as ada:
            assert ada.call("awr_session_list", project="alpha").value()["sessions"] == listed
            assert listed[0]["status"] == "active"
            found = ada.call("awr_operation_get", project="alpha", request_id=record.request_id).value()
            assert found["outcome"] == "recorded"
            waits = ada.call("awr_session_waits", project="alpha", session=record.session).value()
            assert waits["continuity_state"] == "waiting_user"


# A project that is not where it was


def moved_away(root: Path) -> None:
    root.rename(root.with_name("elsewhere"))


def replaced_by_another(root: Path) -> None:
    moved_away(root)
    make_project(root)


def replaced_by_a_link(root: Path) -> None:
    moved_away(root)
    root.symlink_to(root.with_name("elsewhere"))


def emptied(root: Path) -> None:
    shutil.copytree(root, root.with_name("elsewhere"))
    shutil.rmtree(root / ".awr")


def put_behind_a_link(root: Path) -> None:
    shutil.copytree(root, root.with_name("elsewhere"))
    shutil.rmtree(root / ".awr")
    (root / ".awr").symlink_to(root.with_name("elsewhere") / ".awr")


@pytest.mark.parametrize("change", [moved_away, replaced_by_another, replaced_by_a_link, emptied, put_behind_a_link])
def test_a_project_that_is_not_what_was_registered_is_refused_until_it_is_back(
    serve: Serve, change: Callable[[Path], None]
) -> None:
    with serve() as team, team.agent("ada") as ada:
        root = team.projects["alpha"].root
        stated = note(ada)
        change(root)
        for tool, arguments in (
            ("awr_session_list", {"project": "alpha"}),
            ("awr_project_status", {"project": "alpha"}),
            ("awr_search", {"project": "alpha", "text": "parse"}),
            ("awr_event_append", stated),
        ):
            report = ada.call(tool, **arguments).error("RuleViolation")
            assert str(root.parent) not in json.dumps(report)
        assert ada.call("awr_session_list", project="beta").value()["ok"] is True
        shutil.rmtree(root) if not root.is_symlink() and root.exists() else root.unlink(missing_ok=True)
        root.with_name("elsewhere").rename(root)
        assert ada.call("awr_event_append", **stated).value()["ok"] is True
