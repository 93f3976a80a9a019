"""What the sources describe, as last parsed: finding it, and telling what a new parse changes."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, TypeVar

import msgspec

from awr.chain import journal_bytes
from awr.domain.rules import Rule
from awr.domain.work import (
    Diagnostic,
    Freshness,
    Goal,
    Plan,
    WorkItem,
    claim_readiness,
    readiness,
)
from awr.errors import ClaimConflict, DependencyBlocked, SourceConflict, SourceStale
from awr.journal.database import Database
from awr.journal.journal import Reader, Writer
from awr.journal.sources import EntityRow, entities_of_source, entity, live_sources
from awr.sources.ledger import Ledger

__all__ = ["Change", "Contents", "keys_of", "planned_changes", "require_claimable", "store_changes"]

Described = Goal | Plan | WorkItem | Rule
Kind = Literal["goal", "plan", "work_item", "rule"]
Entity = TypeVar("Entity", Goal, Plan, WorkItem, Rule)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What one parse did to one entity. Revisions count the entity's own versions, from 1."""

    kind: str
    id: str
    external_key: str
    action: Literal["added", "changed", "retired"]
    before_revision: int | None
    after_revision: int


class Place(msgspec.Struct, frozen=True):
    """Where an entity stands in its file, and its content without that."""

    kind: Kind
    external_key: str
    status: str
    line: int
    body: str


class Contents:
    """Questions about goals, plans, rules and work items, answered from the last parse."""

    def __init__(self, reader: Reader) -> None:
        self._database = reader.database
        self._now = reader.now
        self._freshness: dict[str, Freshness] = {row.id: row.freshness for row in live_sources(reader.database)}
        self._known: dict[str, tuple[WorkItem, str] | None] = {}
        # One for all questions over the same facts, so that no part of the graph is walked twice.
        self._faults: dict[str, tuple[Diagnostic, ...]] = {}

    def work_item(self, key: str) -> WorkItem | None:
        """Return a work item by its key, or None."""
        found = self._found(key)
        return found[0] if found else None

    def work_items(self) -> list[WorkItem]:
        """Return every work item in the order of its file."""
        found = self._all("work_item", _work_decoder)
        self._known.update({item.external_key: (item, source_id) for item, source_id in found})
        return [item for item, _ in found]

    def goals(self) -> tuple[Goal, ...]:
        """Return every goal in the order of its file."""
        return tuple(goal for goal, _ in self._all("goal", _goal_decoder))

    def plans(self) -> tuple[Plan, ...]:
        """Return every milestone and plan in the order of its file."""
        return tuple(plan for plan, _ in self._all("plan", _plan_decoder))

    def rules(self) -> tuple[Rule, ...]:
        """Return every rule in the order of its file."""
        return tuple(rule for rule, _ in self._all("rule", _rule_decoder))

    def identity(self, kind: Kind, key: str) -> EntityRow | None:
        """Return the lasting id and the revision of what a source names now, or None."""
        found = entity(self._database, kind=kind, external_key=key)
        return None if found is None or found.retired else found

    def freshness(self, key: str) -> Freshness:
        """Return how fresh the source of a work item is; a key that no source names is unavailable."""
        found = self._found(key)
        return self._freshness.get(found[1], "unavailable") if found else "unavailable"

    @cached_property
    def claimed_keys(self) -> frozenset[str]:
        """Return the keys of work that a session holds now."""
        rows = self._database.rows(
            "SELECT e.external_key FROM claims c JOIN entities e ON e.id = c.work_item_id "
            "WHERE c.status = 'active' AND (c.expires_at IS NULL OR c.expires_at > ?)",
            (self._now,),
        )
        return frozenset(row["external_key"] for row in rows)

    def diagnostics(self, item: WorkItem) -> tuple[Diagnostic, ...]:
        """Return what keeps a work item from being claimed anew."""
        return readiness(
            item,
            lookup=self.work_item,
            active_claims=self.claimed_keys,
            freshness=self.freshness,
            known_faults=self._faults,
        )

    def claim_diagnostics(self, item: WorkItem) -> tuple[Diagnostic, ...]:
        """Return what keeps a work item from being claimed, where work under way may be taken up too."""
        return claim_readiness(
            item,
            lookup=self.work_item,
            active_claims=self.claimed_keys,
            freshness=self.freshness,
            known_faults=self._faults,
        )

    def _found(self, key: str) -> tuple[WorkItem, str] | None:
        if key not in self._known:
            row = self._database.row(
                "SELECT source_id, body, place FROM contents WHERE kind = 'work_item' AND external_key = ?", (key,)
            )
            self._known[key] = (
                None if row is None else (_decoded(_work_decoder, row["body"], row["place"]), row["source_id"])
            )
        return self._known[key]

    def _all(self, kind: Kind, decoder: msgspec.json.Decoder[Entity]) -> list[tuple[Entity, str]]:
        rows = self._database.rows(
            "SELECT source_id, body, place FROM contents WHERE kind = ? ORDER BY source_id, place, external_key",
            (kind,),
        )
        return [(_decoded(decoder, row["body"], row["place"]), row["source_id"]) for row in rows]


def require_claimable(writer: Writer, work: EntityRow) -> None:
    """Raise ClaimConflict, SourceStale or DependencyBlocked unless the work item can be claimed now."""
    contents = Contents(writer)
    item = contents.work_item(work.external_key)
    found = contents.claim_diagnostics(item) if item else ()
    codes = {diagnostic.code for diagnostic in found}
    if "active_claim" in codes:
        raise ClaimConflict(
            "another session holds this work",
            expected="work that nobody holds",
            next_step="run awr work show to see who holds it, and wait or ask for a handoff",
        )
    if "source_not_fresh" in codes:
        raise SourceStale(
            "the source of this work, or of what it depends on, is not fresh",
            expected="fresh sources",
            next_step="run awr source reindex, then repeat this",
        )
    if found or item is None:
        raise DependencyBlocked(
            "this work cannot be claimed now",
            got=", ".join(sorted(codes)) or "no content",
            expected="work that is ready",
            next_step="run awr work show to see what is in the way",
            diagnostics=msgspec.to_builtins(found),
        )


def keys_of(ledger: Ledger) -> set[tuple[str, str]]:
    """Return the kind and key of everything a ledger names."""
    return {(place.kind, place.external_key) for place in _described(ledger)}


def planned_changes(
    writer: Writer, source_id: str, ledger: Ledger, *, leaving: frozenset[tuple[str, str]] = frozenset()
) -> tuple[list[Change], dict[str, Place]]:
    """Compare a parse with what is stored. Return what changed, and every entity's place by its id.

    `leaving` has what its present source no longer names. Raise SourceConflict when another source keeps the key.
    """
    changes: list[Change] = []
    places: dict[str, Place] = {}
    bodies = _stored_bodies(writer.database, source_id)
    for place in _described(ledger):
        known = entity(writer.database, kind=place.kind, external_key=place.external_key)
        elsewhere = known is not None and not known.retired and known.source_id != source_id
        if elsewhere and (place.kind, place.external_key) not in leaving:
            raise SourceConflict(
                "two sources name the same key",
                got=f"a {place.kind.replace('_', ' ')} at line {place.line} that another source has",
                expected="each key in one source",
                next_step="rename it in one of the two files",
            )
        entity_id = known.id if known else writer.new_id()
        places[entity_id] = place
        if known is None or known.retired or elsewhere or bodies.get(entity_id) != place.body:
            changes.append(
                Change(
                    kind=place.kind,
                    id=entity_id,
                    external_key=place.external_key,
                    action="added" if known is None or known.retired else "changed",
                    before_revision=known.revision if known else None,
                    after_revision=known.revision + 1 if known else 1,
                )
            )
    changes.extend(_retirements(writer.database, source_id, places))
    return changes, places


def store_changes(database: Database, source_id: str, changes: list[Change], places: dict[str, Place]) -> None:
    """Replace what is stored of one source by a new parse."""
    for change in changes:
        if change.action == "retired":
            database.execute("DELETE FROM contents WHERE entity_id = ?", (change.id,))
    for entity_id, place in places.items():
        database.execute(
            "INSERT OR REPLACE INTO contents (entity_id, kind, external_key, source_id, status, place, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (entity_id, place.kind, place.external_key, source_id, place.status, place.line, place.body),
        )


def _retirements(database: Database, source_id: str, places: dict[str, Place]) -> list[Change]:
    return [
        Change(
            kind=known.kind,
            id=known.id,
            external_key=known.external_key,
            action="retired",
            before_revision=known.revision,
            after_revision=known.revision + 1,
        )
        for known in entities_of_source(database, source_id)
        if known.id not in places
    ]


def _stored_bodies(database: Database, source_id: str) -> dict[str, str]:
    rows = database.rows("SELECT entity_id, body FROM contents WHERE source_id = ?", (source_id,))
    return {row["entity_id"]: row["body"] for row in rows}


def _described(ledger: Ledger) -> list[Place]:
    kinds: tuple[tuple[Kind, tuple[Described, ...]], ...] = (
        ("goal", ledger.goals),
        ("plan", ledger.milestones),
        ("work_item", ledger.work_items),
        ("rule", ledger.rules),
    )
    return [
        # A line that moved because something above it grew is no change of the thing itself.
        Place(kind, item.external_key, _state(item), item.line, _encoded(msgspec.structs.replace(item, line=0)))
        for kind, items in kinds
        for item in items
    ]


def _encoded(item: Described) -> str:
    return journal_bytes(item).decode()


def _decoded(decoder: msgspec.json.Decoder[Entity], body: str, line: int) -> Entity:
    return msgspec.structs.replace(decoder.decode(body), line=line)


def _state(item: Described) -> str:
    """Return the word that a list shows beside an entity; a rule has a severity where others have a status."""
    return (item.severity or "unresolved") if isinstance(item, Rule) else item.status


_goal_decoder = msgspec.json.Decoder(Goal)
_plan_decoder = msgspec.json.Decoder(Plan)
_work_decoder = msgspec.json.Decoder(WorkItem)
_rule_decoder = msgspec.json.Decoder(Rule)
