"""Management assessments as the journal has them."""

from __future__ import annotations

import msgspec

from awr.journal.database import Database, Row
from awr.journal.events import Event

__all__ = ["PROJECTORS", "ManagementRecord", "latest_management", "management_by_request"]


class ManagementRecord(msgspec.Struct, frozen=True):
    """One recorded assessment, found by the request that made it."""

    request_key: str
    work_item_id: str
    event_id: str
    mode: str
    contract_fingerprint: str
    revision: int


_COLUMNS = ", ".join(ManagementRecord.__struct_fields__)


def latest_management(database: Database, work_item_id: str) -> ManagementRecord | None:
    """Return the newest assessment of a work item, or None."""
    return _record(
        database.row(
            f"SELECT {_COLUMNS} FROM management_records WHERE work_item_id = ? ORDER BY revision DESC LIMIT 1",
            (work_item_id,),
        )
    )


def management_by_request(database: Database, request_key: str) -> ManagementRecord | None:
    """Return the assessment that a request made, or None."""
    return _record(database.row(f"SELECT {_COLUMNS} FROM management_records WHERE request_key = ?", (request_key,)))


def _record(row: Row | None) -> ManagementRecord | None:
    return None if row is None else ManagementRecord(*row)


def _assessed(database: Database, event: Event, payload: dict[str, object]) -> None:
    assessment = payload["assessment"]
    assert isinstance(assessment, dict)
    database.execute(
        f"INSERT INTO management_records ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        (
            payload["request_key"],
            event.work_item_id,
            event.id,
            assessment["decision"]["mode"],
            assessment["contract_fingerprint"],
            event.project_revision,
        ),
    )


PROJECTORS = {"management.assessed": _assessed}
