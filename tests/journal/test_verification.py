"""What a changed journal looks like to the verification."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from awr.chain import journal_bytes, link
from awr.journal.events import events_in_order
from awr.journal.journal import Journal
from awr.journal.verification import Verification, verify

GUARDS = ("events_refuse_update", "events_refuse_delete", "events_refuse_replace")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path / "state.db")
    made.create(name="demo", external_key=None)
    for number in range(5):
        with made.write() as writer:
            writer.append("note.added", {"count": number}, summary=f"note {number}")
    return made


def tamper(journal: Journal, *statements: str) -> None:
    connection = sqlite3.connect(journal.path, isolation_level=None)
    guards = connection.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'"
    ).fetchall()
    for name in GUARDS:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for (sql,) in guards:
        connection.execute(sql)
    connection.close()


def verified(journal: Journal, *, expected_head: str | None = None) -> Verification:
    with journal.read() as reader:
        return verify(reader.database, expected_head=expected_head)


def test_an_untouched_journal_verifies_with_its_head(journal: Journal) -> None:
    found = verified(journal)
    assert found.broken is None
    assert found.events == 6
    assert found.project_revision == 6
    assert found.head is not None
    assert len(found.head) == 64


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("summary", "'changed'"),
        ("event_type", "'note.changed'"),
        ("importance", "'high'"),
        ("created_at", "1"),
        ("id", "'0000000000000000000000000A'"),
        ("session_id", "'s'"),
        ("work_item_id", "'w'"),
        ("branch_id", "'b'"),
        ("project_id", "'p'"),
        ("payload_sha256", "'00'"),
    ],
)
def test_a_changed_column_breaks_the_chain_at_that_event(journal: Journal, column: str, value: str) -> None:
    tamper(journal, f"UPDATE events SET {column} = {value} WHERE position = 3")
    broken = verified(journal).broken
    assert broken is not None
    assert broken.position == 3


def test_a_changed_payload_is_named_at_its_event(journal: Journal) -> None:
    tamper(journal, """UPDATE events SET payload = '{"count":99}' WHERE position = 4""")
    broken = verified(journal).broken
    assert broken is not None
    assert (broken.position, broken.problem) == (4, "its payload is not the one that was written")


def test_a_removed_event_is_named_as_missing(journal: Journal) -> None:
    tamper(journal, "DELETE FROM events WHERE position = 4")
    broken = verified(journal).broken
    assert broken is not None
    assert broken.problem == "events 4 to 4 are missing"


def test_a_cut_tail_shows_against_a_head_noted_earlier(journal: Journal) -> None:
    head = verified(journal).head
    tamper(journal, "DELETE FROM events WHERE position > 4")
    assert verified(journal).broken is None
    broken = verified(journal, expected_head=head).broken
    assert broken is not None
    assert broken.problem == "the expected head is nowhere in the journal"


def test_an_older_head_is_still_found_in_a_journal_that_grew(journal: Journal) -> None:
    head = verified(journal).head
    with journal.write() as writer:
        writer.append("note.added", {}, summary="later")
    assert verified(journal, expected_head=head).broken is None


def test_a_revision_that_jumps_is_named(journal: Journal) -> None:
    with journal.read() as reader:
        *_, (last, _) = events_in_order(reader.database)
        previous = reader.database.row("SELECT link FROM events WHERE position = 5")
    assert previous is not None
    # A forger who knows the link rule still cannot leave a hole in the revisions.
    header = {name: getattr(last, name) for name in last.__struct_fields__ if name != "payload"}
    forged = link(
        journal_bytes({**header, "format": "awr.journal.v1", "project_revision": 9}), previous=previous["link"]
    )
    tamper(journal, f"UPDATE events SET project_revision = 9, link = x'{forged.hex()}' WHERE position = 6")
    broken = verified(journal).broken
    assert broken is not None
    assert broken.problem == "revision 9 cannot follow revision 5"


def test_a_dropped_guard_is_reported(journal: Journal) -> None:
    connection = sqlite3.connect(journal.path)
    connection.execute("DROP TRIGGER events_refuse_delete")
    connection.close()
    found = verified(journal)
    assert found.broken is None
    assert found.missing_guards == ("events_refuse_delete",)
