"""What a Guardian decided about folds and whatever it did not allow, and what a piece of data was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from awr.domain.lineage import Lineage
from awr.domain.provenance import TrustMap
from awr.errors import NotFound
from awr.guardian.labels import SessionLabels
from awr.operations.fields import Limit, described
from awr.operations.guardian import AcsSession, DatabaseFile, reading, session_in

__all__ = [
    "DecisionRequest",
    "DecisionResult",
    "DecisionsRequest",
    "DecisionsResult",
    "LineageRequest",
    "LineageResult",
    "decision",
    "decisions",
    "lineage",
]


class DecisionsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: Annotated[str | None, described("One session; left out, all of them.")] = None
    database: DatabaseFile = None
    after: Annotated[int, msgspec.Meta(ge=0, description="How many to pass over.")] | None = None
    limit: Limit = 100


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One decision. Times are Unix milliseconds."""

    session_id: str
    position: int
    step_id: str
    step_type: str
    decision: str
    reason_codes: tuple[str, ...]
    findings: tuple[str, ...]
    received_at: int


class DecisionsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions in the order of their sessions and entries. `next_after` goes on; None when that was all."""

    ok: Literal[True] = True
    read_only: Literal[True] = True
    decisions: tuple[DecisionRow, ...]
    next_after: int | None


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    step: Annotated[str, described("The step's id.", argument=True)]
    database: DatabaseFile = None


class DecisionResult(msgspec.Struct, frozen=True, kw_only=True):
    """One decision with the rules that decided and the facts that they were given, in the words of the wire."""

    ok: Literal[True] = True
    read_only: Literal[True] = True
    decision: DecisionRow
    verdict: dict[str, Any]


class LineageRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: AcsSession
    data: Annotated[str, described("The provenance id of a piece of data, such as a summary.", argument=True)]
    database: DatabaseFile = None


class DatumRow(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of data. `trust` is by the standard's own map and what was endorsed; None is not on record."""

    provenance_id: str
    origin: str | None
    source_id: str | None
    derived_from: tuple[str, ...]
    trust: str | None


class LineageResult(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of data and all that it derives from, each once, nearest first."""

    ok: Literal[True] = True
    read_only: Literal[True] = True
    session_id: str
    data: tuple[DatumRow, ...]


def decisions(root: Path, request: DecisionsRequest) -> DecisionsResult:
    """List what was decided about folds, and whatever was not allowed."""
    start = request.after or 0
    with reading(root, request.database) as store:
        session = session_in(store, request.session) if request.session is not None else None
        found = store.decisions(session=session, after=start, limit=request.limit + 1)
    page = found[: request.limit]
    return DecisionsResult(
        decisions=tuple(map(_row, page)),
        next_after=start + len(page) if len(found) > len(page) else None,
    )


def decision(root: Path, request: DecisionRequest) -> DecisionResult:
    """Show one decision whole. Raise NotFound for a step of which none is kept."""
    with reading(root, request.database) as store:
        found = store.decision(request.step)
    if found is None:
        raise NotFound(
            "no decision on this step is kept",
            expected="the id of a step about a fold, or of one that was not allowed",
            next_step="run awr guardian decisions to see them",
        )
    return DecisionResult(decision=_row(found), verdict=found["verdict"])


def lineage(root: Path, request: LineageRequest) -> LineageResult:
    """Show what a piece of data was made of. Raise NotFound for data that the session has not recorded."""
    labels = SessionLabels(TrustMap(), strict=False)
    with reading(root, request.database) as store:
        session = session_in(store, request.session)
        labels.catch_up(store, session)
    graph = labels.lineage
    if graph.datum_of(request.data) is None:
        raise NotFound(
            "the session has recorded no such data",
            expected="a provenance id of the session",
            next_step="run awr guardian export to see the session's data",
        )
    rows = []
    for name in _walk(request.data, graph):
        said = graph.datum_of(name)
        label = graph.label_of(name)
        rows.append(
            DatumRow(
                provenance_id=name,
                origin=None if said is None else said.origin,
                source_id=None if said is None else said.source_id,
                derived_from=graph.derived_from_of(name) or (),
                trust=None if label is None else label.trust,
            )
        )
    return LineageResult(session_id=session.session_id, data=tuple(rows))


def _walk(start: str, graph: Lineage) -> list[str]:
    """Return what a piece of data derives from, nearest first."""
    found = {start: None}
    pending = [start]
    while pending:
        following = []
        for name in pending:
            for under in graph.derived_from_of(name) or ():
                if under not in found:
                    found[under] = None
                    following.append(under)
        pending = following
    return list(found)


def _row(found: dict[str, Any]) -> DecisionRow:
    return DecisionRow(
        session_id=found["session_id"],
        position=found["position"],
        step_id=found["step_id"],
        step_type=found["step_type"],
        decision=found["decision"],
        reason_codes=tuple(found["reason_codes"]),
        findings=tuple(found["findings"]),
        received_at=found["received_at"],
    )
