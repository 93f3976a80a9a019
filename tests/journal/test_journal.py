"""The journal as a writer and a reader meet it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from awr.errors import AwrError, Io, NotFound, RevisionConflict, Storage
from awr.ids import following_id, new_id
from awr.journal.events import events_in_order
from awr.journal.journal import Journal
from awr.journal.migrations import SCHEMA_VERSION
from awr.journal.verification import verify


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path / "state.db", clock=lambda: 1_000)
    made.create(name="demo", external_key=None)
    return made


def append_note(journal: Journal, text: str, *, expected_revision: int | None = None) -> int:
    with journal.write(expected_revision=expected_revision) as writer:
        writer.append("note.added", {"detail": text}, summary=text)
        return writer.project_revision


def revision_of(journal: Journal) -> int:
    with journal.read() as reader:
        return reader.project_revision


def raw(journal: Journal) -> sqlite3.Connection:
    return sqlite3.connect(journal.path, isolation_level=None)


def test_a_new_journal_begins_at_revision_one_with_the_project_event(journal: Journal) -> None:
    with journal.read() as reader:
        events = [event for event, _ in events_in_order(reader.database)]
        assert [event.event_type for event in events] == ["project.initialized"]
        assert reader.project_revision == 1
        assert reader.project.name == "demo"


def test_each_commit_advances_the_revision_by_one_however_many_events_it_has(journal: Journal) -> None:
    with journal.write() as writer:
        for number in range(3):
            writer.append("note.added", {"count": number}, summary="note")
    with journal.read() as reader:
        revisions = [event.project_revision for event, _ in events_in_order(reader.database)]
    assert revisions == [1, 2, 2, 2]


def test_a_write_that_appends_nothing_leaves_the_revision_alone(journal: Journal) -> None:
    with journal.write():
        pass
    assert revision_of(journal) == 1


def test_a_stale_expected_revision_is_refused_and_nothing_is_written(journal: Journal) -> None:
    append_note(journal, "first", expected_revision=1)
    with pytest.raises(RevisionConflict) as caught:
        append_note(journal, "second", expected_revision=1)
    assert caught.value.report()["details"] == {
        "expected": 1,
        "actual": 2,
        "next_step": "look at what changed, then repeat the write with expected revision 2",
    }
    assert revision_of(journal) == 2


def test_a_failing_block_rolls_back_every_event_of_it(journal: Journal) -> None:
    with pytest.raises(ZeroDivisionError), journal.write() as writer:
        writer.append("note.added", {}, summary="lost")
        raise ZeroDivisionError
    assert revision_of(journal) == 1


def test_the_largest_sequence_is_stored_exactly(journal: Journal) -> None:
    with journal.write() as writer:
        stored = writer.append("note.added", {"sequence": 2**63 - 1}, summary="large")
    assert stored.payload == '{"sequence":9223372036854775807}'
    assert stored.content() == {"sequence": 9223372036854775807}


def test_payload_bytes_are_compact_utf8_json_with_sorted_keys(journal: Journal) -> None:
    with journal.write() as writer:
        stored = writer.append("note.added", {"b": "é", "a": [1, None]}, summary="order")
    assert stored.payload == '{"a":[1,null],"b":"é"}'


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET summary = 'changed'",
        "DELETE FROM events",
        "INSERT OR REPLACE INTO events SELECT * FROM events",
        "REPLACE INTO events SELECT * FROM events",
        "INSERT OR REPLACE INTO events SELECT 99, id, project_id, work_item_id, session_id, branch_id, event_type, "
        "importance, summary, payload, payload_sha256, project_revision, created_at, link FROM events",
    ],
)
@pytest.mark.parametrize("recursive_triggers", ["ON", "OFF"])
def test_changing_a_stored_event_is_refused_on_any_connection(
    journal: Journal, statement: str, recursive_triggers: str
) -> None:
    connection = raw(journal)
    connection.execute(f"PRAGMA recursive_triggers = {recursive_triggers}")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()
    with journal.read() as reader:
        assert verify(reader.database).broken is None


def test_commits_are_durable_by_wal_and_full_synchronous(journal: Journal) -> None:
    with journal.held_open(), journal.write() as writer:
        assert writer.database.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert writer.database.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_the_write_ahead_log_stays_small_over_many_commits(journal: Journal) -> None:
    log = journal.path.with_name("state.db-wal")
    largest = 0
    with journal.held_open():
        for number in range(1200):
            append_note(journal, f"note {number}")
            largest = max(largest, log.stat().st_size)
    assert largest < 4 * 1024 * 1024


def test_ids_made_in_the_same_millisecond_sort_as_they_were_made(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state.db", clock=lambda: 5, make_id=lambda at: "0" * 25 + "5")
    journal.create(name="demo", external_key=None)
    with journal.write() as writer:
        ids = [writer.new_id() for _ in range(100)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 100


def test_an_id_has_26_characters_and_sorts_by_time() -> None:
    assert len(new_id(1_789_500_000_000)) == 26
    assert new_id(1_789_500_000_000) < new_id(1_789_500_000_001)
    assert following_id("0" * 25 + "Z") == "0" * 24 + "10"


def test_a_reader_keeps_its_view_while_a_writer_commits(journal: Journal) -> None:
    with journal.read() as reader:
        append_note(journal, "later")
        assert [event.summary for event, _ in events_in_order(reader.database)] == ["Project initialized"]
    assert revision_of(journal) == 2


def test_reading_writes_no_byte_of_the_database(journal: Journal) -> None:
    before = journal.path.read_bytes()
    with journal.read():
        pass
    assert journal.path.read_bytes() == before


def test_a_reader_cannot_write(journal: Journal) -> None:
    with journal.read() as reader, pytest.raises(AwrError):
        reader.database.execute("DELETE FROM sessions")


def test_a_second_project_is_not_created_over_the_first(journal: Journal) -> None:
    with pytest.raises(Storage, match="database already"):
        journal.create(name="other", external_key=None)
    with journal.read() as reader:
        assert reader.project.name == "demo"


def test_another_awrs_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA application_id = 0x41575231")
    connection.execute("CREATE TABLE events (id)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Storage, match="another AWR's database"), Journal(path).read():
        pass
    with pytest.raises(Storage, match="another AWR's database"), Journal(path).write():
        pass
    with pytest.raises(Storage, match="another AWR's database"):
        Journal(path).create(name="x", external_key=None)
    assert path.read_bytes() == before


def test_a_database_of_any_other_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (text)")
    connection.close()
    with pytest.raises(Storage, match="not a database of this program"), Journal(path).write():
        pass
    with pytest.raises(Storage, match="not a database of this program"):
        Journal(path).create(name="x", external_key=None)


def test_a_newer_database_is_refused_and_left_as_it_is(journal: Journal) -> None:
    connection = raw(journal)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = journal.path.read_bytes()
    for opened in (journal.read, journal.write):
        with pytest.raises(Storage, match="newer AWR"), opened():
            pass
    assert journal.path.read_bytes() == before


def test_a_file_that_is_no_database_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    with pytest.raises(Storage, match="not a readable SQLite database"), Journal(path).read():
        pass


def test_a_missing_database_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state.db")
    with pytest.raises(Io), journal.read():
        pass
    with pytest.raises(Io), journal.write():
        pass
    assert not journal.path.exists()


def test_a_database_in_use_is_named_after_the_waiting_time(journal: Journal) -> None:
    impatient = Journal(journal.path, busy_ms=20)
    with journal.write() as writer:
        writer.append("note.added", {}, summary="first")
        with pytest.raises(Storage, match="in use"), impatient.write():
            pass
    assert revision_of(journal) == 2


def test_a_full_disk_loses_nothing_that_was_committed(journal: Journal) -> None:
    append_note(journal, "kept")
    with journal.held_open():
        with pytest.raises(Io, match="disk is full"), journal.write() as writer:
            pages = writer.database.execute("PRAGMA page_count").fetchone()[0]
            writer.database.execute(f"PRAGMA max_page_count = {pages}")
            for number in range(2000):
                writer.append("note.added", {"detail": "x" * 1000, "count": number}, summary="too much")
        assert revision_of(journal) == 2
    with journal.read() as reader:
        assert verify(reader.database).broken is None


def test_a_journal_without_a_beginning_is_named(journal: Journal) -> None:
    connection = raw(journal)
    connection.execute("DROP TRIGGER events_refuse_delete")
    connection.execute("DELETE FROM events")
    connection.close()
    with pytest.raises(NotFound, match="no project in it"), journal.read():
        pass


def test_an_event_above_the_payload_limit_is_refused(journal: Journal) -> None:
    with pytest.raises(AwrError, match="too large"), journal.write() as writer:
        writer.append("note.added", {"body": "x" * (16 * 1024 * 1024)}, summary="large")
    assert revision_of(journal) == 1
