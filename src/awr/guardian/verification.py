"""Proof that a session's chain is as it was written, and the chain as anybody can check it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from awr.chain import link
from awr.guardian.entries import step_text
from awr.guardian.store import Session, Store, aggregated
from awr.journal.migrations import ACS_GUARDS

__all__ = ["ChainBreak", "ChainFound", "exported", "missing_guards", "verify"]


class ChainBreak(msgspec.Struct, frozen=True, kw_only=True):
    """The first place where a chain is not as it was written."""

    session_id: str
    position: int
    problem: str


class ChainFound(msgspec.Struct, frozen=True, kw_only=True):
    """What a full reading of one chain found. `head` is the hash of its last entry."""

    session_id: str
    entries: int
    head: str | None
    sealed: bool
    broken: ChainBreak | None


def verify(store: Store, session: Session, *, witnessed: tuple[str, ...] = ()) -> ChainFound:
    """Read one chain whole and stop at the first break.

    `witnessed` are heads that the Guardian has published and somebody noted down: each has to be in the chain, or a
    part of it was cut off and the rest linked anew.
    """
    head: bytes | None = None
    position = 0
    summary: dict[str, Any] = {}
    unseen = set(witnessed)
    last_type = None

    def broken(at: int, problem: str) -> ChainFound:
        found = ChainBreak(session_id=session.session_id, position=at, problem=problem)
        return ChainFound(
            session_id=session.session_id,
            entries=position,
            head=None if head is None else head.hex(),
            sealed=session.sealed_at is not None,
            broken=found,
        )

    counts = store.provenance_counts(session)
    for row in store.entries(session):
        if row["position"] != position + 1:
            return broken(row["position"], f"entries {position + 1} to {row['position'] - 1} are missing")
        problem = _problem(row, head, counts.get(row["position"], {}))
        if problem is not None:
            return broken(row["position"], problem)
        position, head, last_type = row["position"], row["link"], row["step_type"]
        summary = aggregated(summary, _content(row["entry"]).get("provenance_summary", {}))
        unseen.discard(row["link"].hex())
    if (position, head) != (session.entries, session.head):
        return broken(position + 1, "the chain does not end at the head that the session names")
    if session.sealed_at is not None and last_type != "steps/sessionEnd":
        return broken(position, "the session is sealed and its last entry is not its end")
    if position and summary != session.summary:
        return broken(position, "the session's summary of provenance is not what its entries come to")
    if unseen:
        return broken(position + 1, f"{len(unseen)} of the witnessed heads are nowhere in the chain")
    return ChainFound(
        session_id=session.session_id,
        entries=position,
        head=None if head is None else head.hex(),
        sealed=session.sealed_at is not None,
        broken=None,
    )


def exported(store: Store, session: Session) -> Iterator[dict[str, Any]]:
    """Yield a chain as lines of JSON: the session, then each ContextEntry whole, with what was decided beside it."""
    yield {
        "session_id": session.session_id,
        "agent_id": session.agent_id,
        "key_id": session.key_id,
        "provenance_producer": session.provenance_producer,
        "server_hello": session.server_hello,
        "opened_at": session.opened_at,
        "sealed_at": session.sealed_at,
        "chain_hash": None if session.head is None else session.head.hex(),
        "provenance_summary": session.summary,
        "intent": session.intent,
        "entries": session.entries,
    }
    previous: str | None = None
    for row in store.entries(session):
        entry = _content(row["entry"])
        if previous is not None:
            entry["previous_hash"] = previous
        entry["entry_hash"] = previous = row["link"].hex()
        yield {
            "entry": entry,
            "decision": row["decision"],
            "reason_codes": row["reason_codes"],
            "findings": row["findings"],
            "facts": row["facts"],
            "received_at": row["received_at"],
        }


def missing_guards(store: Store) -> tuple[str, ...]:
    """Return the rules against changes that are no longer in the database."""
    rows = store.database.rows("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    present = {row["name"]: row["sql"] for row in rows}
    return tuple(name for name, statement in ACS_GUARDS.items() if present.get(name) != statement)


def _problem(row: dict[str, Any], head: bytes | None, provenance: dict[str, int]) -> str | None:
    if row["entry"] is None:
        return "what it commits to is not there, nor in an archive"
    if link(row["entry"], previous=head) != row["link"]:
        return "it does not link to the entry before it"
    content = _content(row["entry"])
    if (content.get("step_id"), content.get("step_type")) != (step_text(row["step_id"]), row["step_type"]):
        return "its step is not the one that it commits to"
    if content.get("provenance_summary", {}).get("entry_count_by_origin", {}) != provenance:
        return "its provenance is not what it commits to"
    return None


def _content(entry: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(entry)
    return found
