"""Executions and what hosts reported about them, as the journal has them."""

from __future__ import annotations

import msgspec

from awr.chain import journal_bytes
from awr.domain.execution import Execution, Intent, Report
from awr.errors import NotFound
from awr.journal.database import Database, Row
from awr.journal.events import Event

__all__ = [
    "PROJECTORS",
    "execution_by_id",
    "execution_by_key",
    "executions",
    "executions_of_work",
    "recorded_report",
    "reports_of",
]

_EXECUTION = ", ".join(Execution.__struct_fields__)
_intents = msgspec.json.Decoder(Intent)
_reports = msgspec.json.Decoder(Report)


def execution_by_id(database: Database, execution_id: str) -> Execution:
    """Return one execution. Raise NotFound."""
    row = database.row(f"SELECT {_EXECUTION} FROM executions WHERE id = ?", (execution_id,))
    if row is None:
        raise NotFound(
            "there is no such execution in this project",
            expected="the id of an execution",
            next_step="run awr execution list to see them",
        )
    return _execution(row)


def execution_by_key(database: Database, operation_key: str) -> Execution | None:
    """Return the execution that has the project's own key, or None."""
    row = database.row(f"SELECT {_EXECUTION} FROM executions WHERE operation_key = ?", (operation_key,))
    return None if row is None else _execution(row)


def executions_of_work(database: Database, work_item_id: str) -> list[Execution]:
    """Return every execution of a work item, oldest first."""
    rows = database.rows(
        f"SELECT {_EXECUTION} FROM executions WHERE work_item_id = ? ORDER BY rowid", (work_item_id,)
    )
    return [_execution(row) for row in rows]


def executions(
    database: Database, *, limit: int, work_item_id: str | None = None, client: str | None = None
) -> list[Execution]:
    """Return executions, newest first: the project's, one work item's, or those of one client's sessions."""
    rows = database.rows(
        f"SELECT {_EXECUTION} FROM executions WHERE (:work IS NULL OR work_item_id = :work) "
        "AND (:client IS NULL OR session_id IN (SELECT id FROM sessions WHERE client = :client)) "
        "ORDER BY rowid DESC LIMIT :limit",
        {"work": work_item_id, "client": client, "limit": limit},
    )
    return [_execution(row) for row in rows]


def recorded_report(database: Database, request_key: str) -> tuple[str, Report] | None:
    """Return the event and content of a report by its key, or None."""
    row = database.row("SELECT event_id, body FROM execution_reports WHERE request_key = ?", (request_key,))
    return None if row is None else (row["event_id"], _reports.decode(row["body"]))


def reports_of(database: Database, execution_id: str) -> list[Report]:
    """Return what was reported of an execution, oldest first."""
    rows = database.rows(
        "SELECT r.body FROM execution_reports r JOIN events e ON e.id = r.event_id "
        "WHERE r.execution_id = ? ORDER BY e.position",
        (execution_id,),
    )
    return [_reports.decode(row["body"]) for row in rows]


def _execution(row: Row) -> Execution:
    values = dict(zip(Execution.__struct_fields__, tuple(row), strict=True))
    values["intent"] = _intents.decode(values["intent"])
    return Execution(**values)


def _registered(database: Database, event: Event, payload: dict[str, object]) -> None:
    intent = payload["intent"]
    assert isinstance(intent, dict)
    database.execute(
        f"INSERT INTO executions ({_EXECUTION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'registered', ?, NULL, NULL, NULL)",
        (
            payload["execution_id"],
            event.project_id,
            event.work_item_id,
            event.session_id,
            event.branch_id,
            event.project_revision,
            intent["operation_key"],
            journal_bytes(intent).decode(),
            event.created_at,
        ),
    )


def _reported(database: Database, event: Event, payload: dict[str, object]) -> None:
    report = payload["report"]
    assert isinstance(report, dict)
    database.execute(
        "INSERT INTO execution_reports (request_key, execution_id, event_id, body) VALUES (?, ?, ?, ?)",
        (report["request_key"], report["execution_id"], event.id, journal_bytes(report).decode()),
    )
    database.execute(
        "UPDATE executions SET latest_phase = ?, revision = ? WHERE id = ?",
        (report["phase"], event.project_revision, report["execution_id"]),
    )


PROJECTORS = {
    "execution.registered": _registered,
    "execution.external_reported": _reported,
}
