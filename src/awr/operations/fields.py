"""Request fields that many operations share, with the words that describe them to a person and in a schema."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from awr.errors import NotFound, Unsupported
from awr.journal.database import Database
from awr.journal.sources import EntityRow, entity

__all__ = [
    "Branch",
    "Cached",
    "ExpectedRevision",
    "Limit",
    "OptionalRevision",
    "SessionId",
    "VisibleTo",
    "WorkKey",
    "described",
    "require_main",
    "work_entity",
]


def described(text: str, **extra: Any) -> msgspec.Meta:
    """Describe a field. Extra words are for the command line: `argument=True` makes it positional."""
    return msgspec.Meta(description=text, extra=extra or None)


ExpectedRevision = Annotated[
    int,
    msgspec.Meta(ge=0, le=2**63 - 1, description="The project revision this write is based on; awr status shows it."),
]
OptionalRevision = (
    Annotated[
        int,
        msgspec.Meta(
            ge=0, le=2**63 - 1, description="The project revision this write is based on; left out, the present one."
        ),
    ]
    | None
)
SessionId = Annotated[str, described("The session's id.")]
WorkKey = Annotated[str, described("The work item's key in the ledger.", argument=True)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many rows at the most.")]
Branch = Annotated[str | None, described("The branch; only main exists.")]
#: What a client of the shared service may see of others: nothing that belongs to their sessions.
VisibleTo = Annotated[
    str | None, described("Only what belongs to this client's sessions or to none; left out, everything.")
]
Cached = Annotated[bool, described("Answer from what was last indexed, without looking at the files.")]


def require_main(branch: str | None) -> None:
    """Raise Unsupported for any branch but main."""
    if branch not in {None, "main"}:
        raise Unsupported(
            "this AWR keeps one branch, main",
            got="another branch",
            expected="main, or no branch at all",
            next_step="leave the branch out",
        )


def work_entity(database: Database, key: str) -> EntityRow:
    """Return the lasting id of a work item by its key. Raise NotFound for one the sources do not name now."""
    found = entity(database, kind="work_item", external_key=key)
    if found is None or found.retired:
        raise NotFound(
            "there is no such work item",
            expected="the key of a work item in a source of this project",
            next_step="run awr status to see the work, or awr source reindex after editing the ledger",
        )
    return found
