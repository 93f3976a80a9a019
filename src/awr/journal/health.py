"""Whether a database has the very schema that this program makes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from awr.journal.database import Database
from awr.journal.migrations import SCHEMA_VERSION, migrate

__all__ = ["schema_issues"]


def schema_issues(database: Database) -> tuple[str, ...]:
    """Return what is missing, changed or foreign in the schema, by the names that this program gave."""
    with tempfile.TemporaryDirectory(prefix="awr-schema-") as folder:
        fresh = Database(Path(folder) / "state.db", mode="create", schema_version=SCHEMA_VERSION)
        try:
            fresh.claim_new_file()
            migrate(fresh, now=0)
            expected = _definitions(fresh)
        finally:
            fresh.close()
    present = _definitions(database)
    issues = [f"{kind} {name} is missing" for kind, name in expected if (kind, name) not in present]
    issues += [
        f"{kind} {name} is not as this program made it"
        for (kind, name), statement in expected.items()
        if present.get((kind, name), statement) != statement
    ]
    if foreign := present.keys() - expected.keys():
        issues.append(f"{len(foreign)} tables, indexes, views or triggers are not this program's")
    return tuple(issues)


def _definitions(database: Database) -> dict[tuple[str, str], str]:
    rows = database.rows("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite@_%' ESCAPE '@'")
    return {(row["type"], row["name"]): row["sql"] for row in rows}
