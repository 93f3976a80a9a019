"""A named write is carried out once, whatever happens to its answer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awr.journal.projections import rebuild
from awr.journal.verification import verify
from awr.operations.calling import Answer
from awr.project import Project
from awr.surfaces.mcp.ownership import Caller
from tests.support.projects import begin_session, make_project, revision
from tests.support.tools import break_finishing, event_types, mend_finishing, use


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


def note(project: Project, request_id: str | None = "r", **changed: Any) -> Answer:
    arguments = {"event_type": "note.added", "summary": "A note", "expected_revision": 2, **changed}
    if request_id is not None:
        arguments["request_id"] = request_id
    return use(project, "awr_event_append", **arguments)


def notes(project: Project) -> int:
    return event_types(project).count("note.added")


def test_the_same_request_is_carried_out_once_and_answered_the_same(project: Project) -> None:
    first, again = note(project), note(project)
    assert first.value is not None
    assert again.value is not None
    assert notes(project) == 1
    assert first.value["operation"] == {**again.value["operation"], "replayed": False}
    assert again.value["operation"]["replayed"] is True
    same = {key: value for key, value in first.value.items() if key != "operation"}
    assert same == {key: value for key, value in again.value.items() if key != "operation"}


def test_a_named_note_takes_three_revisions_and_says_which_is_its_own(project: Project) -> None:
    value = note(project).value
    assert value is not None
    assert (value["receipt_project_revision"], value["project_revision"], revision(project)) == (4, 5, 5)
    assert event_types(project)[-3:] == ["mcp.operation_started", "note.added", "mcp.operation_finished"]


def test_a_replay_says_what_the_revision_is_now(project: Project) -> None:
    note(project)
    note(project, "other", expected_revision=5)
    value = note(project).value
    assert value is not None
    assert (value["receipt_project_revision"], value["project_revision"]) == (4, 8)


@pytest.mark.parametrize("changed", [{"summary": "Another"}, {"expected_revision": 3}, {"importance": "high"}])
def test_a_changed_request_under_the_same_id_is_a_conflict(project: Project, changed: dict[str, Any]) -> None:
    note(project)
    answer = note(project, **changed)
    assert answer.value is None
    assert answer.error is not None
    assert answer.error["code"] == "SourceConflict"
    assert revision(project) == 5


def test_another_tool_under_the_same_id_is_a_conflict(project: Project) -> None:
    note(project)
    answer = use(project, "awr_source_reindex", expected_revision=2, request_id="r")
    assert answer.error is not None
    assert answer.error["code"] == "SourceConflict"


def test_the_same_id_of_another_client_is_another_request(project: Project) -> None:
    note(project)
    arguments: dict[str, Any] = {
        "event_type": "note.added",
        "summary": "Mine",
        "expected_revision": 5,
        "request_id": "r",
    }
    answer = use(project, "awr_event_append", caller=Caller("other", authenticated=True), **arguments)
    assert answer.error is None
    assert notes(project) == 2


def test_a_stale_revision_leaves_no_receipt(project: Project) -> None:
    answer = note(project, expected_revision=1)
    assert answer.error is not None
    assert answer.error["code"] == "RevisionConflict"
    assert revision(project) == 2
    assert note(project).error is None


def test_a_refusal_is_recorded_and_answered_again(project: Project) -> None:
    first = note(project, event_type="session.started")
    again = note(project, event_type="session.started")
    assert first.error == again.error
    assert first.error is not None
    assert first.error["code"] == "InvalidInput"
    assert again.value is not None
    assert again.value["code"] == "InvalidInput"
    assert (revision(project), again.value["operation"]["replayed"]) == (4, True)


def test_a_write_that_found_everything_done_says_that_only_its_receipt_was_written(project: Project) -> None:
    wanted: dict[str, Any] = {"work": "parse", "conversation": "c", "agent": "a", "provider": "p", "model": "m"}
    use(project, "awr_session_start", expected_revision=2, **wanted)
    value = use(project, "awr_session_start", expected_revision=3, request_id="s", **wanted).value
    assert value is not None
    assert (value["binding_reused"], value["domain_read_only"], value["read_only"]) == (True, True, False)


def test_without_a_request_id_nothing_is_announced(project: Project) -> None:
    value = note(project, None).value
    assert value is not None
    assert value["project_revision"] == 3
    assert "operation" not in value


@pytest.mark.parametrize("request_id", ["", " ", "x" * 257, "a\nb"])
def test_a_request_id_has_its_bounds(project: Project, request_id: str) -> None:
    answer = note(project, request_id)
    assert answer.error is not None
    assert answer.error["code"] == "InvalidInput"
    assert revision(project) == 2


def test_an_answer_that_cannot_be_recorded_is_an_unknown_outcome_and_repeating_it_changes_nothing(
    project: Project,
) -> None:
    break_finishing(project.journal.path)
    first = note(project)
    before = revision(project)
    again = note(project)
    assert first.error == again.error
    assert first.error is not None
    assert first.error["code"] == "MutationConflict"
    body = again.body()
    assert (body["ok"], body["write_outcome"], body["outcome"]) == (False, "unknown", "unknown")
    assert [one["event_type"] for one in body["domain_receipts"]] == ["note.added"]
    assert (notes(project), revision(project)) == (1, before)


def test_a_lost_answer_is_recovered_by_its_one_event_and_then_stands(project: Project) -> None:
    break_finishing(project.journal.path)
    note(project)
    mend_finishing(project.journal.path)
    now = revision(project)
    stale = use(project, "awr_operation_recover", request_id="r", expected_revision=1)
    assert stale.error is not None
    assert stale.error["code"] == "RevisionConflict"
    value = use(project, "awr_operation_recover", request_id="r", expected_revision=now).value
    assert value is not None
    assert (value["write_outcome"], value["recovered"], value["read_only"]) == ("committed", True, False)
    assert value["continuation_requires_context"] is True
    assert value["operation"]["status"] == "recovered"
    assert revision(project) == now + 1
    again = note(project).value
    assert again is not None
    assert (again["recovered"], again["operation"]["status"], notes(project)) == (True, "recovered", 1)
    assert use(project, "awr_operation_recover", request_id="r", expected_revision=1).error is None
    assert revision(project) == now + 1


def announce(project: Project, *, tool: str = "awr_event_append") -> str:
    """Write what a process that died behind the announcement leaves, and return the operation's id."""
    with project.journal.write() as writer:
        operation_id = writer.new_id()
        payload = {"operation_id": operation_id, "client": "stdio", "request_id": "r", "tool": tool}
        writer.append("mcp.operation_started", {**payload, "fingerprint": "0" * 64}, summary="Announced")
        return operation_id


@pytest.mark.parametrize("proofs", [0, 2])
def test_without_exactly_one_event_the_outcome_stays_unknown(project: Project, proofs: int) -> None:
    tagged = project.tagged(announce(project))
    for _ in range(proofs):
        with tagged.journal.write() as writer:
            writer.append("note.added", {}, summary="A note")
    now = revision(project)
    answer = use(project, "awr_operation_recover", request_id="r", expected_revision=now)
    assert answer.error is not None
    assert answer.error["code"] == "MutationConflict"
    assert len(answer.body()["domain_receipts"]) == proofs
    assert revision(project) == now


def test_an_event_of_the_wrong_kind_proves_nothing(project: Project) -> None:
    with project.tagged(announce(project, tool="awr_session_end")).journal.write() as writer:
        writer.append("note.added", {}, summary="A note")
    answer = use(project, "awr_operation_recover", request_id="r", expected_revision=revision(project))
    assert answer.error is not None
    assert answer.error["code"] == "MutationConflict"


def test_a_reindex_leaves_nothing_that_could_prove_it(project: Project) -> None:
    announce(project, tool="awr_source_reindex")
    answer = use(project, "awr_operation_recover", request_id="r", expected_revision=revision(project))
    assert answer.body()["write_outcome"] == "unknown"


@pytest.mark.parametrize("tool", ["awr_operation_get", "awr_operation_recover"])
def test_another_clients_request_is_not_found(project: Project, tool: str) -> None:
    note(project)
    more: dict[str, Any] = {"expected_revision": 5} if tool.endswith("recover") else {}
    answer = use(project, tool, caller=Caller("other", authenticated=True), request_id="r", **more)
    assert answer.error is not None
    assert answer.error["code"] == "NotFound"


def test_a_recorded_operation_is_shown_with_its_answer(project: Project) -> None:
    note(project)
    value = use(project, "awr_operation_get", request_id="r").value
    assert value is not None
    assert (value["outcome"], value["read_only"], value["freshness_basis"]) == ("recorded", True, "runtime_database")
    operation = value["operation"]
    assert (operation["status"], operation["tool"], operation["is_error"]) == ("finished", "awr_event_append", False)
    assert operation["result"]["project_revision"] == 4
    assert value["receipts_may_have_more"] is False


def test_no_caller_can_tag_an_event_as_an_operations_own(project: Project) -> None:
    answer = note(project, payload={"mcp_operation_id": "x"})
    assert answer.error is not None
    assert answer.error["code"] == "InvalidInput"


def test_a_secret_in_the_arguments_leaves_nothing_behind(project: Project) -> None:
    secret = "ghp_" + "a1B2c3D4" * 4
    answer = note(project, summary=secret)
    assert answer.error is not None
    assert answer.error["code"] == "RuleViolation"
    assert secret not in json.dumps(answer.error)
    assert revision(project) == 2


def test_a_rebuild_brings_the_receipts_back_exactly(project: Project) -> None:
    note(project)
    break_finishing(project.journal.path)
    note(project, "lost", expected_revision=5)
    mend_finishing(project.journal.path)
    use(project, "awr_operation_recover", request_id="lost", expected_revision=revision(project))
    with project.journal.write() as writer:
        assert rebuild(writer.database)["operations"] == 0
    assert note(project).value is not None


def test_a_transition_can_be_cut_to_its_outcome_and_changing_only_that_replays(project: Project) -> None:
    session = begin_session(project, claim=True)
    wanted: dict[str, Any] = {
        "action": "progress",
        "work": "parse",
        "session": session,
        "reason": "Began",
        "next_action": "Go on",
    }
    now = revision(project)
    refused = use(project, "awr_work_transition", expected_revision=now, response_view="summary", **wanted)
    assert refused.error is not None
    assert refused.error["code"] == "InvalidInput"
    named: dict[str, Any] = {"expected_revision": now, "request_id": "t", **wanted}
    short = use(project, "awr_work_transition", response_view="summary", **named).value
    full = use(project, "awr_work_transition", **named).value
    assert short is not None
    assert full is not None
    assert (full["operation"]["replayed"], short["operation"]["replayed"]) == (True, False)
    assert "patch" in full["proposal"]
    assert "patch" not in short["proposal"]
    assert short["response_view"]["full_result"]["arguments"] == {"request_id": "t"}
    assert event_types(project).count("work.progressed") == 1


WRITE = """
import sys
from pathlib import Path
from awr.project import Project
from tests.support.killing import die_at
from tests.support.tools import use
project, boundary = Project.open(Path(sys.argv[1])), int(sys.argv[2])
count = die_at(boundary)
use(project, "awr_event_append", event_type="note.added", summary="A note", expected_revision=2, request_id="r")
print(count())
"""


def killed_write(root: Path, boundary: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WRITE, str(root), str(boundary)]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[2])


def test_a_named_write_that_is_killed_anywhere_is_carried_out_at_most_once(tmp_path: Path) -> None:
    boundaries = int(killed_write(make_project(tmp_path / "whole").root, 0).stdout)
    assert boundaries >= 20
    seen = set()
    for boundary in range(1, boundaries + 1, 3):
        project = make_project(tmp_path / str(boundary))
        assert killed_write(project.root, boundary).returncode == -signal.SIGKILL
        answer = note(project)
        assert notes(project) <= 1
        if answer.error is None:
            assert notes(project) == 1
            seen.add("replayed" if answer.body()["operation"]["replayed"] else "carried out")
        else:
            assert answer.body()["write_outcome"] == "unknown"
            settled = use(project, "awr_operation_recover", request_id="r", expected_revision=revision(project))
            assert (settled.error is None) == (notes(project) == 1)
            seen.add("recovered" if settled.error is None else "nothing was done")
        with project.journal.read() as reader:
            assert verify(reader.database).broken is None
    assert seen >= {"carried out", "recovered", "nothing was done"}


requests = st.tuples(st.sampled_from("abc"), st.sampled_from(["one", "two"]), st.booleans())


@settings(max_examples=30, deadline=None)
@given(sent=st.lists(requests, max_size=12))
def test_whatever_is_sent_in_whatever_order_each_id_is_carried_out_once(
    tmp_path_factory: pytest.TempPathFactory, sent: list[tuple[str, str, bool]]
) -> None:
    project = make_project(tmp_path_factory.mktemp("any") / "project")
    first: dict[str, tuple[str, bool, int]] = {}
    for request_id, summary, reserved in sent:
        known = first.get(request_id)
        now = revision(project) if known is None else known[2]
        answer = note(
            project,
            request_id,
            summary=summary,
            expected_revision=now,
            event_type="source.mine" if reserved else "note.added",
        )
        if known is None:
            first[request_id] = (summary, reserved, now)
            assert answer.is_error == reserved
        elif known[:2] == (summary, reserved):
            assert answer.body()["operation"]["replayed"] is True
        else:
            assert answer.error is not None
            assert answer.error["code"] == "SourceConflict"
    assert notes(project) == sum(not reserved for _, reserved, _ in first.values())
