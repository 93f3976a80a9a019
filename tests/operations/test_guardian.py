"""The Guardian's record for the person in control: sessions, their chains, the proof of them, and hooks' schemas."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from awr.errors import InvalidInput, Io, NotFound, Storage
from awr.guardian.hooks import HOOKS
from awr.operations.guardian import (
    ExportRequest,
    SchemaRequest,
    SessionsRequest,
    ShowRequest,
    VerifyRequest,
    export,
    schema,
    sessions,
    show,
    verify_chains,
)
from awr.operations.registry import OPERATIONS
from awr.project import Project
from awr.surfaces.cli.app import run
from tests.support.acs import Agent, guardian_at
from tests.support.projects import make_project

DATABASE = "guardian.db"


@pytest.fixture
def agents(tmp_path: Path) -> list[Agent]:
    """Three sessions: one that has ended, one that goes on, one that has only begun."""
    guardian = guardian_at(tmp_path / DATABASE)
    made = [Agent(guardian.answer) for _ in range(3)]
    for agent in made:
        agent.begin()
    for _ in range(4):
        made[0].step("steps/toolCallRequest")
        made[1].step("steps/userMessage")
    made[0].step("steps/sessionEnd")
    guardian.store.close()
    return made


def test_sessions_are_listed_in_the_order_in_which_they_began_page_by_page(
    tmp_path: Path, agents: list[Agent]
) -> None:
    first = sessions(tmp_path, SessionsRequest(database=DATABASE, limit=2))
    rest = sessions(tmp_path, SessionsRequest(database=DATABASE, limit=2, after=first.next_after))
    listed = [*first.sessions, *rest.sessions]
    assert [row.session_id for row in listed] == [agent.session_id for agent in agents]
    assert [(row.entries, row.sealed_at is not None) for row in listed] == [(5, True), (4, False), (0, False)]
    assert listed[2].chain_hash is None
    assert rest.next_after is None


def test_one_session_is_shown_with_its_entries_page_by_page(tmp_path: Path, agents: list[Agent]) -> None:
    request = ShowRequest(session=agents[0].session_id, database=DATABASE, limit=3)
    first = show(tmp_path, request)
    rest = show(tmp_path, ShowRequest(session=agents[0].session_id, database=DATABASE, after=first.next_after))
    entries = [*first.entries, *rest.entries]
    assert [entry.position for entry in entries] == [1, 2, 3, 4, 5]
    assert entries[-1].step_type == "steps/sessionEnd"
    assert entries[-1].entry_hash == first.session.chain_hash
    assert entries[0].facts is not None
    assert entries[0].facts["tool_name"] == "Bash"
    assert first.provenance_summary["origins_seen"] == ["agent_generated"]


def test_a_session_that_is_not_there_is_not_found(tmp_path: Path, agents: list[Agent]) -> None:
    with pytest.raises(NotFound):
        show(tmp_path, ShowRequest(session=agents[0].session_id.upper(), database=DATABASE))


def test_without_a_database_the_next_step_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as refused:
        sessions(tmp_path, SessionsRequest())
    assert "--database" in str(refused.value.details["next_step"])


def test_in_a_project_the_record_is_the_projects_own(tmp_path: Path) -> None:
    project: Project = make_project(tmp_path)
    guardian = guardian_at(project.journal.path)
    agent = Agent(guardian.answer)
    agent.begin()
    with project.journal.read() as reader:
        before = reader.project_revision
    agent.step("steps/toolCallRequest")
    guardian.store.close()
    assert sessions(project.root, SessionsRequest()).sessions[0].entries == 1
    with project.journal.read() as reader:
        assert reader.project_revision == before, "a tool step does not move the revision under a working agent"


def test_all_chains_are_verified_and_a_broken_one_is_a_result(tmp_path: Path, agents: list[Agent]) -> None:
    found = verify_chains(tmp_path, VerifyRequest(database=DATABASE))
    assert (found.ok, found.sessions, found.entries) == (True, 3, 9)
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.execute("DROP TRIGGER acs_entries_refuse_update")
    connection.commit()
    found = verify_chains(tmp_path, VerifyRequest(database=DATABASE))
    assert (found.ok, found.missing_guards) == (False, ("acs_entries_refuse_update",))
    assert isinstance(found.problem(), Storage)
    connection.execute("UPDATE acs_entries SET link = zeroblob(32) WHERE session = 2 AND position = 2")
    connection.commit()
    connection.close()
    found = verify_chains(tmp_path, VerifyRequest(database=DATABASE))
    assert [(broken.session_id, broken.position) for broken in found.broken] == [(agents[1].session_id, 2)]


def test_a_head_that_was_noted_down_has_to_be_in_the_chain_that_it_is_of(tmp_path: Path, agents: list[Agent]) -> None:
    head = show(tmp_path, ShowRequest(session=agents[1].session_id, database=DATABASE)).entries[1].entry_hash
    own = VerifyRequest(session=agents[1].session_id, expect_head=(head,), database=DATABASE)
    assert verify_chains(tmp_path, own).ok
    other = VerifyRequest(session=agents[0].session_id, expect_head=(head,), database=DATABASE)
    assert not verify_chains(tmp_path, other).ok
    with pytest.raises(InvalidInput):
        verify_chains(tmp_path, VerifyRequest(expect_head=(head,), database=DATABASE))


def test_an_export_is_one_line_for_the_session_and_one_for_each_entry(tmp_path: Path, agents: list[Agent]) -> None:
    request = ExportRequest(session=agents[0].session_id, output="chain.jsonl", database=DATABASE)
    found = export(tmp_path, request)
    data = (tmp_path / "chain.jsonl").read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (found.bytes, found.sha256)
    lines = list(map(json.loads, data.splitlines()))
    assert (len(lines), lines[0]["session_id"]) == (6, agents[0].session_id)
    assert lines[-1]["entry"]["entry_hash"] == found.chain_hash
    assert (tmp_path / "chain.jsonl").stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidInput):
        export(tmp_path, request)
    assert (tmp_path / "chain.jsonl").read_bytes() == data


def test_a_broken_chain_is_not_exported_and_leaves_no_file(tmp_path: Path, agents: list[Agent]) -> None:
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.execute("DROP TRIGGER acs_entries_refuse_update")
    connection.execute("UPDATE acs_entries SET link = zeroblob(32) WHERE session = 2 AND position = 2")
    connection.commit()
    connection.close()
    with pytest.raises(Storage):
        export(tmp_path, ExportRequest(session=agents[1].session_id, output="chain.jsonl", database=DATABASE))
    assert not (tmp_path / "chain.jsonl").exists()


def test_an_export_into_a_folder_that_is_not_there_is_one_clear_error(tmp_path: Path, agents: list[Agent]) -> None:
    with pytest.raises((Io, NotFound)):
        export(tmp_path, ExportRequest(session=agents[0].session_id, output="no/chain.jsonl", database=DATABASE))


@pytest.mark.parametrize("method", HOOKS)
def test_each_hook_has_a_schema_that_a_validator_takes(method: str) -> None:
    import jsonschema  # type: ignore[import-untyped]

    found = schema(SchemaRequest(method=method))
    jsonschema.Draft202012Validator.check_schema(found.public())
    assert found.payload["type"] == "object"
    assert "allow" in found.dispositions


def test_a_method_that_is_no_hook_has_no_schema() -> None:
    with pytest.raises(NotFound) as refused:
        schema(SchemaRequest(method="steps/dance"))
    assert "steps/preCompact" in str(refused.value.details["expected"])


def test_none_of_these_is_an_agents_tool() -> None:
    found = [operation for operation in OPERATIONS if operation.name.startswith("guardian.")]
    assert len(found) == 13
    assert not any(operation.exposed for operation in found)


def test_the_command_line_shows_each_of_them(
    tmp_path: Path, agents: list[Agent], capsys: pytest.CaptureFixture[str]
) -> None:
    session = agents[0].session_id
    project = ["--project", str(tmp_path)]
    assert run([*project, "guardian", "sessions", "--database", DATABASE]) == 0
    assert run([*project, "guardian", "show", session, "--database", DATABASE, "--limit", "2"]) == 0
    assert run([*project, "guardian", "verify", "--database", DATABASE]) == 0
    assert run([*project, "guardian", "export", session, "--output", "out.jsonl", "--database", DATABASE]) == 0
    assert run(["guardian", "schema", "steps/preCompact"]) == 0
    shown = capsys.readouterr().out
    for expected in (
        session,
        "Bash",
        "There are more: --after 2",
        "3 chains with 9 entries: every link holds.",
        "Wrote 6 lines",
        '"entries_to_compact"',
    ):
        assert expected in shown
