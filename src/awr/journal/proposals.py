"""Proposals to write to a source, from the first record to the last, and the attempt that may have to be finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from awr.chain import journal_bytes
from awr.errors import NotFound
from awr.journal.database import Database, Row
from awr.journal.events import Event

if TYPE_CHECKING:
    from awr.journal.journal import Reader

__all__ = ["PROJECTORS", "Proposal", "ProposalStatus", "pending_proposal", "pending_proposals", "proposal_by_id"]

ProposalStatus = Literal["draft", "ready", "approved", "applied", "conflict", "rejected", "failed"]


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """One intended change of a source. It never changes but in `status`, with the revision that changed it.

    `work_item_id` is null for a new work item until the source names it. `attempt_event_id` is there once the
    writing has begun; then `after_fingerprint` says what the source will be.
    """

    id: str
    project_id: str
    work_item_id: str | None
    source_id: str
    base_fingerprint: str
    after_fingerprint: str | None
    expected_revision: int
    mutation_type: str
    patch: dict[str, Any]
    status: ProposalStatus
    created_by_session: str | None
    attempt_event_id: str | None
    revision: int

    @property
    def pending(self) -> bool:
        """Whether writing has begun and nobody has said how it ended."""
        return self.status == "approved" and self.attempt_event_id is not None


_COLUMNS = (
    "id, work_item_id, source_id, session_id, mutation_type, status, base_fingerprint, after_fingerprint, "
    "expected_revision, patch, attempt_event_id, revision"
)
_PENDING = "status = 'approved' AND attempt_event_id IS NOT NULL"


def proposal_by_id(reader: Reader, proposal_id: str) -> Proposal:
    """Return one proposal. Raise NotFound."""
    row = reader.database.row(f"SELECT {_COLUMNS} FROM proposals WHERE id = ?", (proposal_id,))
    if row is None:
        raise NotFound(
            "there is no such proposal in this project",
            expected="the id of a proposal, as a work action returns it",
            next_step="run awr event history --event-type proposal.created to see the proposals",
        )
    return _proposal(reader, row)


def pending_proposal(reader: Reader, source_id: str) -> Proposal | None:
    """Return the proposal whose writing to a source has begun and not ended, or None."""
    row = reader.database.row(f"SELECT {_COLUMNS} FROM proposals WHERE source_id = ? AND {_PENDING}", (source_id,))
    return None if row is None else _proposal(reader, row)


def pending_proposals(reader: Reader) -> tuple[Proposal, ...]:
    """Return every proposal whose writing has begun and not ended, oldest first."""
    rows = reader.database.rows(f"SELECT {_COLUMNS} FROM proposals WHERE {_PENDING} ORDER BY id")
    return tuple(_proposal(reader, row) for row in rows)


def _proposal(reader: Reader, row: Row) -> Proposal:
    return Proposal(
        id=row["id"],
        project_id=reader.project_id,
        work_item_id=row["work_item_id"] or None,
        source_id=row["source_id"],
        base_fingerprint=row["base_fingerprint"],
        after_fingerprint=row["after_fingerprint"],
        expected_revision=row["expected_revision"],
        mutation_type=row["mutation_type"],
        patch=msgspec.json.decode(row["patch"]),
        status=row["status"],
        created_by_session=row["session_id"],
        attempt_event_id=row["attempt_event_id"],
        revision=row["revision"],
    )


def _created(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        f"INSERT INTO proposals ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, 'draft', ?, NULL, ?, ?, NULL, ?)",
        (
            payload["proposal_id"],
            # A work item that is yet to be written has no id; the column holds an empty text until then.
            event.work_item_id or "",
            payload["source_id"],
            event.session_id,
            payload["mutation_type"],
            payload["base_fingerprint"],
            payload["expected_revision"],
            journal_bytes(payload["patch"]).decode(),
            event.project_revision,
        ),
    )


def _became(status: ProposalStatus) -> Any:
    def project(database: Database, event: Event, payload: dict[str, object]) -> None:
        database.execute(
            "UPDATE proposals SET status = ?, revision = ? WHERE id = ?",
            (status, event.project_revision, payload["proposal_id"]),
        )

    return project


def _apply_started(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "UPDATE proposals SET attempt_event_id = ?, after_fingerprint = ?, revision = ? WHERE id = ?",
        (event.id, payload["after_fingerprint"], event.project_revision, payload["proposal_id"]),
    )


def _applied(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "UPDATE proposals SET status = 'applied', work_item_id = ?, revision = ? WHERE id = ?",
        (event.work_item_id, event.project_revision, payload["proposal_id"]),
    )


PROJECTORS = {
    "proposal.created": _created,
    "proposal.ready": _became("ready"),
    "proposal.approved": _became("approved"),
    "proposal.apply_started": _apply_started,
    "proposal.applied": _applied,
    "proposal.conflicted": _became("conflict"),
}
