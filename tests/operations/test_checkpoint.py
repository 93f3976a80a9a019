"""Saving where a session stands, and waiting for the user."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from awr.errors import (
    CheckpointIncomplete,
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    RuleViolation,
)
from awr.journal.checkpoints import latest_checkpoint, unfinished_attempts
from awr.journal.events import events_in_order
from awr.journal.verification import verify
from awr.operations import checkpoint as room
from awr.operations.checkpoint import (
    CheckpointRequest,
    CheckpointResult,
    ReplyRequest,
    WaitRequest,
    WaitResult,
    WaitsRequest,
    checkpoint,
    reply,
    wait,
    waits,
)
from awr.operations.event import AppendRequest, append
from awr.operations.journal import RebuildRequest, rebuild
from awr.operations.session import EndRequest, ShowRequest, end, show
from awr.project import Project
from tests.support.projects import begin_session, make_project, revision

HASH = "ab" * 32


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "p")


@pytest.fixture
def session(project: Project) -> str:
    return begin_session(project)


def save(project: Project, session: str | None, **fields: Any) -> CheckpointResult:
    given = {
        "context_hash": HASH,
        "digest": "Grammar done",
        "next_action": "Cover escapes",
        "expected_revision": revision(project),
        **fields,
    }
    return checkpoint(project, CheckpointRequest(session=session, **given))


def ask(project: Project, session: str, **fields: Any) -> WaitResult:
    given = {
        "question": "Ship it?",
        "context_hash": HASH,
        "digest": "Built",
        "next_action": "Ship",
        "expected_revision": revision(project),
        **fields,
    }
    return wait(project, WaitRequest(session=session, **given))


def answer(project: Project, wait_id: str, **fields: Any) -> WaitResult:
    given = {"reply": "Yes", "expected_revision": revision(project), **fields}
    return reply(project, ReplyRequest(wait=wait_id, **given))


def test_a_checkpoint_is_two_revisions_and_names_the_one_before(project: Project, session: str) -> None:
    before = revision(project)
    result = save(project, session, open_loops=("escapes",), changed_entities=("work_item:parse",))
    assert result.project_revision == before + 2
    assert result.checkpoint.project_revision == before
    assert result.checkpoint.open_loops == ("escapes",)
    assert result.context_hash_verified is False
    assert show(project, ShowRequest(session=session)).session.last_checkpoint_id == result.checkpoint.id


def test_a_checkpoint_compares_what_changed_with_what_was_reported(project: Project, session: str) -> None:
    ledger = project.root / "work-ledger.yaml"
    ledger.write_text(ledger.read_text().replace("Parse input", "Parse every input"))
    append(project, AppendRequest(event_type="note.added", summary="x", expected_revision=_refreshed(project)))
    result = save(project, session, changed_entities=("work_item:report",))
    assert result.session_delta["changed_entities_observed"] == ["work_item:parse"]
    assert result.session_delta["changed_entities_reported"] == ["work_item:report"]
    assert result.checkpoint.changed_entities == ("work_item:parse",)
    assert save(project, session).session_delta["changed_entities_observed"] == []


def _refreshed(project: Project) -> int:
    from awr.sources.index import refresh

    return refresh(project).project_revision


@pytest.mark.parametrize(
    "fields",
    [
        {"context_hash": "ab" * 31},
        {"context_hash": "zz" * 32},
        {"digest": " "},
        {"next_action": ""},
        {"open_loops": ("fine", " ")},
        {"changed_entities": ("",)},
    ],
)
def test_a_draft_outside_its_rules_is_refused(project: Project, session: str, fields: dict[str, Any]) -> None:
    before = revision(project)
    with pytest.raises(InvalidInput):
        save(project, session, **fields)
    assert revision(project) == before


def test_a_hash_is_kept_in_lower_case(project: Project, session: str) -> None:
    assert save(project, session, context_hash="AB" * 32).checkpoint.context_hash == HASH


def test_a_secret_in_a_checkpoint_is_refused_and_not_repeated(project: Project, session: str) -> None:
    secret = "ghp_" + "a1B2" * 9
    with pytest.raises(RuleViolation) as caught:
        save(project, session, digest=f"pushed with {secret}")
    assert secret not in str(caught.value.report())


def test_a_stale_revision_a_foreign_agent_and_an_ended_session_are_refused(project: Project, session: str) -> None:
    with pytest.raises(RevisionConflict):
        save(project, session, expected_revision=1)
    with pytest.raises(RuleViolation):
        save(project, session, agent="somebody else")
    assert save(project, session, agent="tester").checkpoint.session_id == session
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    with pytest.raises(InvalidTransition):
        save(project, session)


def test_the_only_active_session_is_meant_when_none_is_named(project: Project, session: str) -> None:
    assert save(project, None).checkpoint.session_id == session
    begin_session(project)
    with pytest.raises(InvalidInput):
        save(project, None)


def test_a_writer_in_between_leaves_an_unfinished_attempt_that_is_no_recovery_point(
    project: Project, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = room._finish

    def late(*arguments: Any, **named: Any) -> Any:
        with project.journal.write() as writer:
            writer.append("note.added", {}, summary="somebody else")
        return finish(*arguments, **named)

    monkeypatch.setattr(room, "_finish", late)
    with pytest.raises(CheckpointIncomplete) as caught:
        save(project, session)
    assert caught.value.details["reason"] == "RevisionConflict"
    with project.journal.read() as reader:
        assert [row["id"] for row in unfinished_attempts(reader.database)] == [caught.value.details["attempt_id"]]
        assert latest_checkpoint(reader.database, session) is None


CHECKPOINT = """
import sys
from pathlib import Path
from awr.operations.checkpoint import CheckpointRequest, checkpoint
from awr.project import Project
from tests.support.killing import die_at
project = Project.open(Path(sys.argv[1]))
request = CheckpointRequest(
    session=sys.argv[2], context_hash="ab" * 32, digest="d", next_action="n", expected_revision=3
)
count = die_at(int(sys.argv[3]))
checkpoint(project, request)
print(count())
"""


def test_a_checkpoint_killed_at_any_boundary_leaves_each_step_whole_or_not_at_all(tmp_path: Path) -> None:
    boundary = killed = 0
    while True:
        boundary += 1
        project = make_project(tmp_path / f"run-{boundary}")
        session = begin_session(project)
        command = [sys.executable, "-c", CHECKPOINT, str(project.root), session, str(boundary)]
        root = Path(__file__).parents[2]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
        now = revision(project)
        with project.journal.read() as reader:
            assert verify(reader.database).broken is None
            unfinished = len(unfinished_attempts(reader.database))
            saved = latest_checkpoint(reader.database, session)
        assert (now, unfinished, saved is not None) in {(3, 0, False), (4, 1, False), (5, 0, True)}
        assert set(rebuild(project, RebuildRequest()).rows_corrected.values()) == {0}
        if done.returncode == 0:
            assert now == 5
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
    assert killed == int(done.stdout) >= 12


def test_a_wait_saves_a_checkpoint_first_and_costs_three_revisions(project: Project, session: str) -> None:
    before = revision(project)
    result = ask(project, session)
    assert result.project_revision == before + 3
    assert result.wait.status == "waiting_user"
    assert result.checkpoint is not None
    assert result.wait.checkpoint_id == result.checkpoint.id
    assert result.host_action == "ask_the_user_and_stop"


def test_a_session_waits_for_one_thing_at_a_time(project: Project, session: str) -> None:
    ask(project, session)
    before = revision(project)
    with pytest.raises(InvalidTransition):
        ask(project, session)
    assert revision(project) == before


def test_a_reply_resolves_the_wait_once(project: Project, session: str) -> None:
    asked = ask(project, session).wait
    result = answer(project, asked.id)
    assert (result.wait.status, result.wait.reply, result.host_action) == (
        "answered",
        "Yes",
        "continue_with_the_reply",
    )
    with pytest.raises(InvalidTransition):
        answer(project, asked.id)
    assert ask(project, session).wait.status == "waiting_user"


def test_a_wait_can_be_cancelled(project: Project, session: str) -> None:
    asked = ask(project, session).wait
    assert answer(project, asked.id, reply="No longer needed", cancel=True).wait.status == "cancelled"


def test_only_the_client_that_asked_may_reply(project: Project, session: str) -> None:
    asked = ask(project, session).wait
    with pytest.raises(RuleViolation):
        answer(project, asked.id, client="another")
    with pytest.raises(NotFound):
        answer(project, "0" * 26)


@pytest.mark.parametrize("text", ["", "  ", "x" * 8193])
def test_a_question_and_a_reply_keep_to_their_bounds(project: Project, session: str, text: str) -> None:
    with pytest.raises(InvalidInput):
        ask(project, session, question=text)
    asked = ask(project, session).wait
    with pytest.raises(InvalidInput):
        answer(project, asked.id, reply=text)


def test_waits_are_listed_newest_first_with_where_the_session_stands(project: Project, session: str) -> None:
    first = ask(project, session).wait
    answer(project, first.id)
    second = ask(project, session).wait
    found = waits(project, WaitsRequest(session=session))
    assert [one.id for one in found.waits] == [second.id, first.id]
    assert found.continuity_state == "waiting_user"
    answer(project, second.id)
    assert waits(project, WaitsRequest(session=session)).continuity_state == "available"


def test_every_step_is_an_event_of_the_session(project: Project, session: str) -> None:
    before = revision(project)
    answer(project, ask(project, session).wait.id)
    with project.journal.read() as reader:
        found = [event for event, _ in events_in_order(reader.database) if event.project_revision > before]
    assert [event.event_type for event in found] == [
        "checkpoint.started",
        "checkpoint.created",
        "mcp.wait_created",
        "mcp.wait_replied",
    ]
    assert {event.session_id for event in found} == {session}


def test_a_writer_is_needed_for_neither_looking_nor_listing(project: Project, session: str) -> None:
    ask(project, session)
    before = project.journal.path.read_bytes()
    waits(project, WaitsRequest(session=session))
    assert project.journal.path.read_bytes() == before
