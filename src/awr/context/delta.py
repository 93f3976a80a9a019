"""What happened since the work was last taken up: where that is, what mattered, and what is only counted.

The beginning is the newest checkpoint that speaks for this work: the session's own, one it inherited, or one that a
closed session of the same work left. Events that matter are shown; the others are folded into counts.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.context.request import ContextRequest
from awr.domain.events import Importance
from awr.domain.session import Checkpoint, Session
from awr.errors import InvalidInput, NotFound, RuleViolation
from awr.journal.checkpoints import checkpoint_by_id, inherited_checkpoint, latest_checkpoint
from awr.journal.database import Database
from awr.journal.journal import Reader
from awr.journal.sessions import lineage, session_by_id
from awr.journal.sources import EntityRow, live_sources

__all__ = [
    "ENTITY_LIMIT",
    "EVENT_LIMIT",
    "Baseline",
    "ChangedEntity",
    "CheckpointOrigin",
    "Delta",
    "DeltaEvent",
    "SourceDelta",
    "baseline_of",
    "delta_since",
    "recovery_checkpoint",
]

EVENT_LIMIT = 12
ENTITY_LIMIT = 24
SUMMARY_CHARACTERS = 240

SavedBy = Literal["session", "handoff", "previous_closed_session", "explicit_checkpoint"]
CheckpointOrigin = SavedBy | Literal["none"]
Origin = SavedBy | Literal["explicit_revision", "session_start", "resumed_session_start", "project_start"]
Action = Literal["added", "changed", "retired"]


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """Where the delta begins, why there, and the checkpoint to recover from if there is one."""

    after_revision: int
    origin: Origin
    checkpoint: Checkpoint | None
    checkpoint_origin: CheckpointOrigin


class DeltaEvent(msgspec.Struct, frozen=True):
    """One event that matters, its summary on one line and cut to 240 characters."""

    id: str
    event_type: str
    importance: Importance
    summary: str
    project_revision: int


class ChangedEntity(msgspec.Struct, frozen=True):
    """The newest thing that happened to one entity of a source."""

    kind: str
    external_key: str
    action: Action


class SourceDelta(msgspec.Struct, frozen=True, kw_only=True):
    """What re-indexing one source brought, entity by entity: exact counts, and the newest few by name."""

    source_id: str
    locator: str
    added: int
    changed: int
    retired: int
    newest: tuple[ChangedEntity, ...]


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """Everything between two revisions. The `left_out` numbers say what the limits kept back."""

    baseline: Baseline
    critical: tuple[DeltaEvent, ...]
    high: tuple[DeltaEvent, ...]
    critical_left_out: int
    high_left_out: int
    sources: tuple[SourceDelta, ...]
    folded: dict[str, int]


class _Change(msgspec.Struct, frozen=True):
    kind: str
    external_key: str
    action: Action


class _SourceEvent(msgspec.Struct, frozen=True):
    source_id: str
    changes: list[_Change]


_source_events = msgspec.json.Decoder(_SourceEvent)


def baseline_of(reader: Reader, request: ContextRequest, *, session: Session | None, work: EntityRow) -> Baseline:
    """Choose where the delta begins. Raise NotFound, RuleViolation or InvalidInput for a wish that cannot be met."""
    if request.checkpoint is not None:
        named = _named_checkpoint(reader, request.checkpoint, work)
        return _baseline(named.project_revision, "explicit_checkpoint", named, "explicit_checkpoint")
    checkpoint, origin = recovery_checkpoint(reader.database, session, work)
    if request.after_revision is not None:
        if request.after_revision > reader.project_revision:
            raise InvalidInput(
                "the delta cannot begin in the future",
                got=request.after_revision,
                expected=f"at most {reader.project_revision}, the present project revision",
                next_step="give an earlier revision",
            )
        return _baseline(request.after_revision, "explicit_revision", checkpoint, origin)
    if checkpoint is not None and origin != "none":
        return _baseline(checkpoint.project_revision, origin, checkpoint, origin)
    if session is not None:
        resumed = len(lineage(reader.database, session.id)) > 1
        start: Origin = "resumed_session_start" if resumed else "session_start"
        return _baseline(session.start_project_revision, start, None, "none")
    return _baseline(0, "project_start", None, "none")


def recovery_checkpoint(
    database: Database, session: Session | None, work: EntityRow
) -> tuple[Checkpoint | None, CheckpointOrigin]:
    """Return the checkpoint that speaks for this work and this session, with why it does."""
    if session is not None:
        own = latest_checkpoint(database, session.id)
        if own is not None:
            return own, "session"
        inherited = inherited_checkpoint(database, session.id)
        if inherited is not None:
            return inherited, "handoff"
    row = database.row(
        "SELECT c.id FROM checkpoints c JOIN sessions s ON s.id = c.session_id "
        "WHERE s.work_item_id = ? AND s.status != 'active' ORDER BY c.revision DESC LIMIT 1",
        (work.id,),
    )
    closed = checkpoint_by_id(database, row["id"]) if row is not None else None
    return closed, "previous_closed_session" if closed else "none"


def delta_since(reader: Reader, baseline: Baseline, *, work: EntityRow) -> Delta:
    """Return what happened after the baseline that bears on this work or on the whole project."""
    saved_at = baseline.checkpoint.revision if baseline.checkpoint is not None else None
    events = [
        event
        for event in _important(reader.database, baseline.after_revision, work)
        # The checkpoint that the delta begins at is shown itself.
        if (event.event_type, event.project_revision) != ("checkpoint.created", saved_at)
    ]
    critical = [event for event in events if event.importance == "critical"]
    high = [event for event in events if event.importance == "high"]
    room = max(0, EVENT_LIMIT - len(critical))
    return Delta(
        baseline=baseline,
        critical=tuple(critical[:EVENT_LIMIT]),
        high=tuple(high[:room]),
        critical_left_out=len(critical[EVENT_LIMIT:]),
        high_left_out=len(high[room:]),
        sources=tuple(_source_deltas(reader.database, baseline.after_revision)),
        folded=_folded(reader.database, baseline.after_revision, work),
    )


def _baseline(
    after_revision: int, origin: Origin, checkpoint: Checkpoint | None, checkpoint_origin: CheckpointOrigin
) -> Baseline:
    return Baseline(
        after_revision=after_revision, origin=origin, checkpoint=checkpoint, checkpoint_origin=checkpoint_origin
    )


def _named_checkpoint(reader: Reader, checkpoint_id: str, work: EntityRow) -> Checkpoint:
    found = checkpoint_by_id(reader.database, checkpoint_id)
    if found is None:
        raise NotFound(
            "there is no such checkpoint in this project",
            expected="the id of a checkpoint",
            next_step="run awr session show to see a session's checkpoint",
        )
    if session_by_id(reader.database, found.session_id).work_item_id != work.id:
        raise RuleViolation(
            "the checkpoint belongs to other work",
            expected="a checkpoint of this work item",
            next_step="name a checkpoint of a session of this work, or leave it out",
        )
    return found


def _important(database: Database, after_revision: int, work: EntityRow) -> list[DeltaEvent]:
    """Return high and critical events of the work or of no work, newest first. Source events are told elsewhere."""
    rows = database.rows(
        "SELECT id, event_type, importance, summary, project_revision FROM events "
        "WHERE importance IN ('high', 'critical') AND project_revision > ? "
        "AND (work_item_id = ? OR work_item_id IS NULL) AND event_type NOT LIKE 'source.%' ORDER BY position DESC",
        (after_revision, work.id),
    )
    return [
        DeltaEvent(
            row["id"], row["event_type"], row["importance"], _one_line(row["summary"]), row["project_revision"]
        )
        for row in rows
    ]


def _one_line(summary: str) -> str:
    return " ".join(summary.split())[:SUMMARY_CHARACTERS]


def _source_deltas(database: Database, after_revision: int) -> list[SourceDelta]:
    if after_revision == 0:
        return _whole_sources(database)
    rows = database.rows(
        "SELECT payload FROM events WHERE event_type = 'source.projected' AND project_revision > ? ORDER BY position",
        (after_revision,),
    )
    newest: dict[str, dict[tuple[str, str], Action]] = {}
    for row in rows:
        event = _source_events.decode(row["payload"])
        known = newest.setdefault(event.source_id, {})
        for change in event.changes:
            place = (change.kind, change.external_key)
            before = known.pop(place, None)
            if before == "added" and change.action == "retired":
                continue
            known[place] = "added" if before == "added" else change.action
    return [
        _source_delta(source.id, source.locator, newest[source.id])
        for source in live_sources(database)
        if newest.get(source.id)
    ]


def _whole_sources(database: Database) -> list[SourceDelta]:
    """Return what every source brought since the project began: all that it has now, and no names of it."""
    rows = database.rows("SELECT source_id, count(*) AS number FROM entities WHERE NOT retired GROUP BY source_id")
    added = {row["source_id"]: row["number"] for row in rows}
    return [
        SourceDelta(
            source_id=source.id, locator=source.locator, added=added[source.id], changed=0, retired=0, newest=()
        )
        for source in live_sources(database)
        if added.get(source.id)
    ]


def _source_delta(source_id: str, locator: str, changes: dict[tuple[str, str], Action]) -> SourceDelta:
    actions = list(changes.values())
    newest_first = list(changes.items())[::-1]
    return SourceDelta(
        source_id=source_id,
        locator=locator,
        added=actions.count("added"),
        changed=actions.count("changed"),
        retired=actions.count("retired"),
        newest=tuple(ChangedEntity(*place, action) for place, action in newest_first[:ENTITY_LIMIT]),
    )


def _folded(database: Database, after_revision: int, work: EntityRow) -> dict[str, int]:
    rows = database.rows(
        "SELECT event_type, count(*) AS number FROM events WHERE work_item_id = ? AND project_revision > ? "
        "AND importance NOT IN ('high', 'critical') GROUP BY event_type ORDER BY event_type",
        (work.id, after_revision),
    )
    return {row["event_type"]: row["number"] for row in rows}
