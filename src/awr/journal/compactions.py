"""Compaction observations: found through a small index, read from the journal's own payloads."""

from __future__ import annotations

import msgspec

from awr.domain.compaction import Observation, Policy
from awr.journal.database import Database, Row
from awr.journal.events import Event

__all__ = ["PROJECTORS", "RecordedObservation", "deferral_of", "latest_observations", "recorded_observation"]


class _Payload(msgspec.Struct, frozen=True):
    observation: Observation
    policy: Policy


class RecordedObservation(msgspec.Struct, frozen=True):
    """One observation in the journal, with the policy it was judged by and its deferral if there is one."""

    event_id: str
    observation: Observation
    policy: Policy
    deferral_event_id: str | None


_SELECT = (
    "SELECT c.event_id, c.deferral_event_id, e.payload FROM compactions c JOIN events e ON e.id = c.event_id "
    "WHERE c.session_id = ? "
)
_decoder = msgspec.json.Decoder(_Payload)


def latest_observations(database: Database, session_id: str) -> list[RecordedObservation]:
    """Return the newest observation of a session and the one before it: two at most, newest first."""
    return [_recorded(row) for row in database.rows(_SELECT + "ORDER BY c.sequence DESC LIMIT 2", (session_id,))]


def recorded_observation(database: Database, session_id: str, compaction_id: str) -> RecordedObservation | None:
    """Return the observation recorded under a host's id, or None."""
    row = database.row(_SELECT + "AND c.compaction_id = ?", (session_id, compaction_id))
    return None if row is None else _recorded(row)


def deferral_of(database: Database, session_id: str, observation_event_id: str) -> str | None:
    """Return the event that deferred an observation of this session, or None."""
    row = database.row(
        "SELECT deferral_event_id FROM compactions WHERE session_id = ? AND event_id = ?",
        (session_id, observation_event_id),
    )
    return None if row is None else row["deferral_event_id"]


def _recorded(row: Row) -> RecordedObservation:
    payload = _decoder.decode(row["payload"])
    return RecordedObservation(
        event_id=row["event_id"],
        observation=payload.observation,
        policy=payload.policy,
        deferral_event_id=row["deferral_event_id"],
    )


def _observed(database: Database, event: Event, payload: dict[str, object]) -> None:
    observation = payload["observation"]
    assert isinstance(observation, dict)
    database.execute(
        "INSERT INTO compactions (session_id, compaction_id, sequence, event_id, deferral_event_id) "
        "VALUES (?, ?, ?, ?, NULL)",
        (event.session_id, observation["compaction_id"], observation["sequence"], event.id),
    )


def _deferred(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "UPDATE compactions SET deferral_event_id = ? WHERE event_id = ?",
        (event.id, payload["observation_event_id"]),
    )


PROJECTORS = {
    "client.compaction_observed": _observed,
    "client.compaction_deferred": _deferred,
}
