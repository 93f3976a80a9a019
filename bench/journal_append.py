"""One durable journal commit against one durable commit of the same row in bare SQLite."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path

from awr.journal.events import COLUMNS
from awr.journal.journal import Journal
from bench.measure import paired, print_figures

COMMITS = 1000
RUNS = 9
MEANING = (
    "The baseline writes the same columns into one table without a second index, trigger or link, with WAL and\n"
    "synchronous=FULL as well. It does not say how fast your disk is: where an fsync takes longer than here, both\n"
    "slow down alike and the ratio rises towards 1."
)


def main() -> None:
    """Print commits per second of both, and their ratio."""
    with tempfile.TemporaryDirectory(prefix="awr-bench-") as name:
        folder = Path(name)
        journal = Journal(folder / "state.db")
        journal.create(name="bench", external_key=None)
        with journal.held_open():
            with journal.write() as writer:
                writer.append("note.added", {"count": 0, "detail": "x" * 120}, summary="One note")
            with journal.read() as reader:
                row = tuple(reader.database.row(f"SELECT {COLUMNS}, link FROM events ORDER BY position DESC") or ())
            raw = _bare_sqlite(folder / "raw.db", columns=len(row))
            measured, baseline, ratio = paired(
                lambda: _journal_rate(journal), lambda: _bare_rate(raw, row), runs=RUNS
            )
            raw.close()
    print_figures(
        "journal append", unit="commits/s", measured=measured, baseline=baseline, ratio=ratio, budget=">= 0.60"
    )
    print(MEANING)


def _journal_rate(journal: Journal) -> float:
    start = time.perf_counter()
    for number in range(COMMITS):
        with journal.write() as writer:
            writer.append("note.added", {"count": number, "detail": "x" * 120}, summary="One note")
    return COMMITS / (time.perf_counter() - start)


def _bare_sqlite(path: Path, *, columns: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    names = ", ".join(f"c{number}" for number in range(1, columns))
    connection.execute(f"CREATE TABLE rows (position INTEGER PRIMARY KEY, {names})")
    return connection


def _bare_rate(connection: sqlite3.Connection, row: tuple[object, ...]) -> float:
    statement = f"INSERT INTO rows VALUES (NULL, {', '.join('?' * (len(row) - 1))})"
    start = time.perf_counter()
    for _ in range(COMMITS):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(statement, row[1:])
        connection.execute("COMMIT")
    return COMMITS / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
