"""Evidence as the journal has it. A record is written once and never changed."""

from __future__ import annotations

import msgspec

from awr.chain import journal_bytes
from awr.domain.evidence import Evidence
from awr.journal.database import Database
from awr.journal.events import Event

__all__ = ["PROJECTORS", "evidence_by_id", "evidence_by_key", "evidence_of_work"]


def evidence_by_key(database: Database, external_key: str) -> Evidence | None:
    """Return the evidence recorded under a key, or None."""
    row = database.row("SELECT body FROM evidence WHERE external_key = ?", (external_key,))
    return None if row is None else _decoder.decode(row["body"])


def evidence_by_id(database: Database, evidence_id: str) -> Evidence | None:
    """Return evidence by its id, or None."""
    row = database.row("SELECT body FROM evidence WHERE id = ?", (evidence_id,))
    return None if row is None else _decoder.decode(row["body"])


def evidence_of_work(database: Database, work_item_id: str) -> tuple[Evidence, ...]:
    """Return the evidence recorded for a work item, oldest first."""
    rows = database.rows("SELECT body FROM evidence WHERE work_item_id = ? ORDER BY revision, id", (work_item_id,))
    return tuple(_decoder.decode(row["body"]) for row in rows)


def _recorded(database: Database, event: Event, payload: dict[str, object]) -> None:
    body = payload["evidence"]
    assert isinstance(body, dict)
    database.execute(
        "INSERT INTO evidence (id, external_key, work_item_id, level, body, event_id, revision) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            payload["evidence_id"],
            payload["external_key"],
            event.work_item_id,
            payload["level"],
            journal_bytes(body).decode(),
            event.id,
            event.project_revision,
        ),
    )


PROJECTORS = {"evidence.recorded": _recorded}

_decoder = msgspec.json.Decoder(Evidence)
