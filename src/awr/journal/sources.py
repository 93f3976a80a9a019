"""Sources and entity ids as the journal has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from awr.journal.database import Database, Row
from awr.journal.events import Event

if TYPE_CHECKING:
    from awr.domain.work import Freshness

__all__ = [
    "PROJECTORS",
    "EntityRow",
    "SourceRow",
    "entities_of_source",
    "entity",
    "entity_by_id",
    "live_sources",
    "source_at",
    "source_by_id",
]


class SourceRow(msgspec.Struct, frozen=True):
    """One source as last recorded. `fingerprint` is null until it was parsed once."""

    id: str
    domain: str
    role: str
    locator: str
    adapter: str
    config_sha256: str
    fingerprint: str | None
    source_revision: int
    freshness: Freshness
    warnings: int
    retired: int


class EntityRow(msgspec.Struct, frozen=True):
    """The lasting id of something that a source file names by its key."""

    kind: str
    external_key: str
    id: str
    source_id: str
    revision: int
    retired: int


_SOURCE = ", ".join(SourceRow.__struct_fields__)
_ENTITY = ", ".join(EntityRow.__struct_fields__)


def live_sources(database: Database) -> list[SourceRow]:
    """Return the sources that the manifest still has, in the order they were registered."""
    rows = database.rows(f"SELECT {_SOURCE} FROM sources WHERE NOT retired ORDER BY id")
    return [SourceRow(*tuple(row)) for row in rows]


def source_by_id(database: Database, source_id: str) -> SourceRow | None:
    """Return one source, retired or not, or None."""
    row = database.row(f"SELECT {_SOURCE} FROM sources WHERE id = ?", (source_id,))
    return None if row is None else SourceRow(*tuple(row))


def source_at(database: Database, *, domain: str, locator: str) -> SourceRow | None:
    """Return the source of a mapping, retired or not, or None."""
    row = database.row(f"SELECT {_SOURCE} FROM sources WHERE domain = ? AND locator = ?", (domain, locator))
    return None if row is None else SourceRow(*tuple(row))


def entity(database: Database, *, kind: str, external_key: str) -> EntityRow | None:
    """Return the lasting id of a key, retired or not, or None."""
    row = database.row(f"SELECT {_ENTITY} FROM entities WHERE kind = ? AND external_key = ?", (kind, external_key))
    return None if row is None else _entity(row)


def entity_by_id(database: Database, entity_id: str) -> EntityRow | None:
    """Return an entity by its id, or None."""
    row = database.row(f"SELECT {_ENTITY} FROM entities WHERE id = ?", (entity_id,))
    return None if row is None else _entity(row)


def entities_of_source(database: Database, source_id: str) -> list[EntityRow]:
    """Return what a source names now."""
    rows = database.rows(f"SELECT {_ENTITY} FROM entities WHERE source_id = ? AND NOT retired", (source_id,))
    return [_entity(row) for row in rows]


def _entity(row: Row) -> EntityRow:
    return EntityRow(*tuple(row))


def _written(database: Database, event: Event, payload: dict[str, object]) -> None:
    after = payload["after"]
    assert isinstance(after, dict)
    database.execute(
        f"INSERT OR REPLACE INTO sources ({_SOURCE}) VALUES ({', '.join('?' * len(SourceRow.__struct_fields__))})",
        [after[name] for name in SourceRow.__struct_fields__],
    )
    changes = payload["changes"]
    assert isinstance(changes, list)
    for change in changes:
        database.execute(
            f"INSERT OR REPLACE INTO entities ({_ENTITY}) VALUES (?, ?, ?, ?, ?, ?)",
            (
                change["kind"],
                change["external_key"],
                change["id"],
                after["id"],
                change["after_revision"],
                change["action"] == "retired",
            ),
        )


#: Every source event carries the source as it is afterwards, so one function serves them all.
PROJECTORS = {
    "source.registered": _written,
    "source.configured": _written,
    "source.projected": _written,
    "source.freshness_changed": _written,
    "source.retired": _written,
}
