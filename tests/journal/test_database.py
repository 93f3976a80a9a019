"""A private copy has what a read looks at, however large the file has become."""

from __future__ import annotations

from pathlib import Path

import pytest

from awr.errors import AwrError
from awr.journal.database import Database
from awr.journal.migrations import SCHEMA_VERSION
from awr.project import Project
from tests.support.acs import Agent, guardian_at
from tests.support.projects import begin_session, make_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path)
    begin_session(made)
    guardian = guardian_at(made.journal.path)
    agent = Agent(guardian.answer)
    agent.begin()
    for _ in range(5):
        agent.step("steps/toolCallRequest")
    guardian.store.close()
    return made


def contents(database: Database) -> dict[str, list[tuple[object, ...]]]:
    tables = [row["name"] for row in database.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: sorted(map(tuple, database.rows(f"SELECT * FROM {name}")), key=repr) for name in tables}


def schema(database: Database) -> list[tuple[object, ...]]:
    return sorted(map(tuple, database.rows("SELECT type, name, tbl_name, sql FROM sqlite_master")), key=repr)


def test_a_small_file_is_copied_whole(project: Project) -> None:
    copy = Database(project.journal.path, mode="copy", schema_version=SCHEMA_VERSION)
    whole = Database(project.journal.path, mode="read", schema_version=SCHEMA_VERSION)
    assert contents(copy) == contents(whole)
    copy.close()
    whole.close()


def test_a_large_file_is_copied_without_what_its_chains_hold(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awr.journal.database.PLAIN_COPY_BYTES", 0)
    copy = Database(project.journal.path, mode="copy", schema_version=SCHEMA_VERSION)
    whole = Database(project.journal.path, mode="read", schema_version=SCHEMA_VERSION)
    found, expected = contents(copy), contents(whole)
    assert schema(copy) == schema(whole)
    assert copy.schema_version() == whole.schema_version()
    assert len(expected["acs_entries"]) == 5
    assert found == {name: [] if name.startswith("acs_") else rows for name, rows in expected.items()}
    with pytest.raises(AwrError):
        copy.execute("DELETE FROM sessions")
    copy.close()
    whole.close()
