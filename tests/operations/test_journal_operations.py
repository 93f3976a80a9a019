"""Verifying and rebuilding, on journals that are whole and on journals that somebody changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from awr.errors import InvalidInput, Storage
from awr.operations.event import AppendRequest, append
from awr.operations.journal import RebuildRequest, VerifyRequest, VerifyResult, rebuild, verify
from awr.operations.session import EndRequest, ListRequest, end, listing
from awr.project import Project
from tests.support.projects import begin_session, make_project, revision


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path / "project")
    session = begin_session(made, claim=True)
    append(made, AppendRequest(event_type="note.added", summary="first", expected_revision=3))
    end(made, EndRequest(session=session, expected_revision=4))
    return made


@contextmanager
def tampering(project: Project, *, guards: bool = True) -> Iterator[sqlite3.Connection]:
    """Change the file behind AWR's back; the guards are taken away and, unless told otherwise, put back."""
    connection = sqlite3.connect(project.journal.path, isolation_level=None)
    saved = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'"
    ).fetchall()
    for name, _ in saved:
        connection.execute(f"DROP TRIGGER {name}")
    yield connection
    if guards:
        for _, sql in saved:
            connection.execute(sql)
    connection.close()


def check(project: Project, *, expect_head: str | None = None) -> VerifyResult:
    return verify(project, VerifyRequest(expect_head=expect_head))


def test_an_untouched_journal_verifies_and_names_its_head(project: Project) -> None:
    result = check(project)
    assert (result.ok, result.broken, result.missing_guards, result.problem()) == (True, None, (), None)
    assert (result.events, result.project_revision) == (8, 5)
    assert result.head is not None
    assert len(result.head) == 64
    assert check(project, expect_head=result.head).ok


def test_an_earlier_head_is_still_found_later(project: Project) -> None:
    earlier = check(project).head
    begin_session(project)
    assert check(project).head != earlier
    assert check(project, expect_head=earlier).ok


def test_a_journal_whose_end_was_cut_verifies_alone_and_not_against_its_head(project: Project) -> None:
    head = check(project).head
    with tampering(project) as connection:
        connection.execute("DELETE FROM events WHERE position = (SELECT max(position) FROM events)")
    assert check(project).ok
    result = check(project, expect_head=head)
    assert not result.ok
    assert isinstance(result.problem(), Storage)


@pytest.mark.parametrize("head", ["", "x", "a" * 63, "A" * 64, "g" * 64, "a" * 65])
def test_a_head_that_is_no_link_is_bad_input(project: Project, head: str) -> None:
    with pytest.raises(InvalidInput):
        check(project, expect_head=head)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("payload = '{}'", "its payload is not the one that was written"),
        ("summary = 'forged'", "it does not link to the event before it"),
        ("created_at = created_at + 1", "it does not link to the event before it"),
        ("importance = 'critical'", "it does not link to the event before it"),
        ("link = zeroblob(32)", "it does not link to the event before it"),
    ],
)
def test_a_changed_event_is_named(project: Project, change: str, problem: str) -> None:
    with tampering(project) as connection:
        (event,) = connection.execute("SELECT id FROM events WHERE position = 4").fetchone()
        connection.execute(f"UPDATE events SET {change} WHERE position = 4")
    result = check(project)
    assert not result.ok
    assert result.broken is not None
    assert (result.broken.position, result.broken.event_id, result.broken.problem) == (4, event, problem)
    error = result.problem()
    assert isinstance(error, Storage)
    assert (error.details["position"], error.details["event_id"]) == (4, event)


def test_a_missing_event_is_named(project: Project) -> None:
    with tampering(project) as connection:
        connection.execute("DELETE FROM events WHERE position = 4")
    broken = check(project).broken
    assert broken is not None
    assert (broken.position, broken.problem) == (5, "events 4 to 4 are missing")


def test_guards_that_were_removed_are_a_problem_of_their_own(project: Project) -> None:
    with tampering(project, guards=False):
        pass
    result = check(project)
    assert (result.ok, result.broken) == (False, None)
    assert result.missing_guards == ("events_refuse_update", "events_refuse_delete", "events_refuse_replace")
    assert isinstance(result.problem(), Storage)


def test_a_guard_that_was_made_toothless_is_missed(project: Project) -> None:
    with tampering(project, guards=False) as connection:
        for name, verb in (("update", "UPDATE"), ("delete", "DELETE"), ("replace", "INSERT")):
            connection.execute(f"CREATE TRIGGER events_refuse_{name} BEFORE {verb} ON events BEGIN SELECT 1; END")
    assert not check(project).ok


def test_verifying_a_broken_journal_says_what_it_read_up_to_the_break(project: Project) -> None:
    with tampering(project) as connection:
        connection.execute("UPDATE events SET summary = 'forged' WHERE position = 2")
    assert (check(project).events, check(project).project_revision) == (1, 1)


# Rebuilding


def test_rebuilding_an_untouched_project_corrects_nothing_and_costs_no_revision(project: Project) -> None:
    result = rebuild(project, RebuildRequest())
    assert set(result.rows_corrected.values()) == {0}
    assert (result.events, result.project_revision) == (8, 5)
    assert revision(project) == 5


@pytest.mark.parametrize(
    ("statement", "table", "rows"),
    [
        ("UPDATE sessions SET status = 'active'", "sessions", 2),
        ("DELETE FROM sessions", "sessions", 1),
        ("DELETE FROM claims", "claims", 1),
        ("UPDATE sources SET freshness = 'stale'", "sources", 2),
        ("DELETE FROM entities WHERE external_key = 'parse'", "entities", 1),
        ("INSERT INTO compactions VALUES ('s', 'c', 1, 'e', NULL)", "compactions", 1),
    ],
)
def test_a_projection_that_was_changed_is_derived_again(
    project: Project, statement: str, table: str, rows: int
) -> None:
    before = listing(project, ListRequest())
    with tampering(project) as connection:
        connection.execute(statement)
    corrected = rebuild(project, RebuildRequest()).rows_corrected
    assert {name: number for name, number in corrected.items() if number} == {table: rows}
    assert set(rebuild(project, RebuildRequest()).rows_corrected.values()) == {0}
    assert listing(project, ListRequest()) == before


def test_nothing_is_rebuilt_from_a_journal_that_was_changed(project: Project) -> None:
    with tampering(project) as connection:
        connection.execute("UPDATE events SET summary = 'forged' WHERE position = 4")
        connection.execute("DELETE FROM sessions")
    with pytest.raises(Storage) as caught:
        rebuild(project, RebuildRequest())
    assert caught.value.details["position"] == 4
    assert listing(project, ListRequest()).sessions == ()
