"""An older database is brought up to date whole, or stays as it is."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from awr.errors import Storage
from awr.journal import journal as journal_room
from awr.journal import migrations
from awr.journal.database import Database
from awr.journal.events import events_in_order
from awr.journal.journal import Journal
from awr.journal.migrations import SCHEMA_VERSION
from awr.journal.projections import rebuild
from awr.journal.verification import verify


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """A database of the first schema, with events in it, as an AWR of that time left it."""
    journal = Journal(tmp_path / "state.db")
    with monkeypatch.context() as then:
        then.setattr(migrations, "_VERSIONS", migrations._VERSIONS[:1])
        then.setattr(migrations, "SCHEMA_VERSION", 1)
        then.setattr(journal_room, "SCHEMA_VERSION", 1)
        journal.create(name="demo", external_key=None)
        with journal.write() as writer:
            writer.append("note.added", {"count": 1}, summary="from then")
    return journal


def version_of(journal: Journal) -> int:
    connection = sqlite3.connect(journal.path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(version)


def test_a_write_brings_an_older_database_up_to_date_and_keeps_its_events(old: Journal) -> None:
    assert version_of(old) == 1
    with old.write() as writer:
        writer.append("note.added", {"count": 2}, summary="from now")
    assert version_of(old) == SCHEMA_VERSION
    with old.read() as reader:
        assert [event.summary for event, _ in events_in_order(reader.database)][1:] == ["from then", "from now"]
        assert verify(reader.database).broken is None
        steps = [row["name"] for row in reader.database.rows("SELECT name FROM schema_migrations ORDER BY rowid")]
    assert steps == [step.__name__ for version in migrations._VERSIONS for step in version]


def test_a_read_refuses_an_older_database_and_changes_nothing(old: Journal) -> None:
    before = old.path.read_bytes()
    with pytest.raises(Storage, match="older schema"), old.read():
        pass
    assert old.path.read_bytes() == before


def test_a_step_that_fails_leaves_the_older_schema_whole(old: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(database: Database) -> None:
        database.execute("CREATE TABLE half_made (id TEXT)")
        raise ZeroDivisionError

    first, *rest = migrations._VERSIONS[1]
    monkeypatch.setattr(migrations, "_VERSIONS", (migrations._VERSIONS[0], (first, broken, *rest)))
    with pytest.raises(ZeroDivisionError), old.write():
        pass
    monkeypatch.undo()
    assert version_of(old) == 1
    connection = sqlite3.connect(old.path)
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert not names & {"half_made", "waits"}
    with old.write() as writer:
        assert set(rebuild(writer.database).values()) == {0}


def test_every_step_has_a_name_of_its_own() -> None:
    names = [step.__name__ for version in migrations._VERSIONS for step in version]
    assert len(names) == len(set(names))


def test_the_link_of_an_event_is_what_an_independent_reader_computes(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state.db", clock=lambda: 1_789_500_000_000)
    journal.create(name="dēmo", external_key=None)
    with journal.write() as writer:
        writer.append("note.added", {"z": 2**63 - 1, "a": "é"}, summary='quote " and \\ and ☃', session_id="s")
    connection = sqlite3.connect(journal.path)
    connection.row_factory = sqlite3.Row
    previous = b""
    for row in connection.execute("SELECT * FROM events ORDER BY position"):
        assert row["payload_sha256"] == hashlib.sha256(row["payload"].encode()).hexdigest()
        header = {name: row[name] for name in row.keys() if name not in {"payload", "link"}}  # noqa: SIM118
        header["format"] = "awr.journal.v1"
        text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = hashlib.sha256(text.encode() + previous).digest()
        assert row["link"] == previous
    connection.close()
