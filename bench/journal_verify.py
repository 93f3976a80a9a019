"""Verifying a journal of 100,000 events, against reading and hashing the same bytes and nothing else."""

from __future__ import annotations

import hashlib
import tempfile
import time
from pathlib import Path

from awr.journal.journal import Journal
from awr.journal.verification import verify
from bench.measure import paired, print_figures

EVENTS = 100_000
RUNS = 5
MEANING = (
    "The time is for one process with the file in the system's cache. It does not say how long a first read from a\n"
    "cold disk takes, nor anything about journals whose payloads are large."
)


def main() -> None:
    """Print the milliseconds of one full verification."""
    with tempfile.TemporaryDirectory(prefix="awr-bench-") as name:
        journal = Journal(Path(name) / "state.db")
        journal.create(name="bench", external_key=None)
        for _ in range(EVENTS // 1000):
            with journal.write() as writer:
                for number in range(1000):
                    writer.append("note.added", {"count": number, "detail": "x" * 120}, summary="One note")
        measured, baseline, ratio = paired(lambda: _verify_ms(journal), lambda: _hash_ms(journal), runs=RUNS)
    print_figures(
        f"verify {EVENTS:,} events",
        unit="ms",
        measured=measured,
        baseline=baseline,
        ratio=ratio,
        budget="<= 2000 ms",
    )
    print(MEANING)


def _verify_ms(journal: Journal) -> float:
    start = time.perf_counter()
    with journal.read() as reader:
        found = verify(reader.database)
    assert found.broken is None
    return (time.perf_counter() - start) * 1000


def _hash_ms(journal: Journal) -> float:
    start = time.perf_counter()
    with journal.read() as reader:
        for row in reader.database.execute("SELECT * FROM events ORDER BY position"):
            hashlib.sha256(row["payload"].encode() + row["link"]).digest()
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
