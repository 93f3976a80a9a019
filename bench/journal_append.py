"""One durable journal commit against one durable commit of the same row in bare SQLite."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path

from awr.ids import new_id, system_clock
from awr.journal.events import COLUMNS
from awr.journal.journal import Journal
from bench.measure import interleaved, print_figures

COMMITS = 20
BLOCKS = 50
RUNS = 11
MEANING = (
    "The baseline writes the same row, its id unique as well, into one bare table: no trigger, no link, no\n"
    "other index, with WAL and synchronous=FULL. It does not say how fast your disk is: where an fsync takes longer\n"
    "than here, both slow down alike and the ratio rises towards 1."
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
            measured, baseline, ratio = interleaved(
                lambda: _journal_rate(journal), lambda: _bare_rate(raw, row), runs=RUNS, blocks=BLOCKS
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
    names = ", ".join(f"c{number}" for number in range(2, columns))
    connection.execute(f"CREATE TABLE rows (position INTEGER PRIMARY KEY, id TEXT UNIQUE, {names})")
    return connection


def _bare_rate(connection: sqlite3.Connection, row: tuple[object, ...]) -> float:
    statement = f"INSERT INTO rows VALUES (NULL, {', '.join('?' * (len(row) - 1))})"
    ids = [new_id(system_clock()) for _ in range(COMMITS)]
    start = time.perf_counter()
    for identity in ids:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(statement, (identity, *row[2:]))
        connection.execute("COMMIT")
    return COMMITS / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
