"""Record what a native compaction did, and say what to do next.

The order of checks is the contract's: secrets, bounds, the session, an exact retry, and only then, inside the write,
revision, activity and order. Nothing here compacts, ends or switches a native session.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from awr.domain.card import Card, card_bytes, compaction_card
from awr.domain.compaction import (
    DEFAULT_POLICY,
    Assessment,
    Observation,
    Policy,
    State,
    assess,
    validate_observation,
    validate_policy,
)
from awr.domain.secrets import refuse_secrets
from awr.domain.session import Session
from awr.errors import InvalidInput, SourceConflict
from awr.journal.compactions import RecordedObservation, deferral_of, latest_observations, recorded_observation
from awr.journal.journal import Reader, Writer
from awr.journal.sessions import session_by_id
from awr.operations.fields import ExpectedRevision, SessionId
from awr.operations.guidance import session_guard
from awr.operations.selection import require_active
from awr.project import Project

__all__ = [
    "CompactionResult",
    "DeferRequest",
    "InspectRequest",
    "ObserveRequest",
    "assess_observations",
    "assess_session",
    "defer",
    "inspect",
    "observe",
    "record_observation",
    "work_bound_session",
]

BASIS_NOTE = "as reported by the host and not verified by AWR; costs and durations it left out stay unknown"


class ObserveRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: SessionId
    expected_revision: ExpectedRevision
    observation: Observation
    policy: Policy | None = None


class InspectRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: SessionId
    include_observation: Annotated[
        bool, msgspec.Meta(description="Also return the recorded numbers of this observation and the one before.")
    ] = False


class DeferRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: SessionId
    observation_event_id: Annotated[str, msgspec.Meta(description="The event id of the latest observation.")]
    expected_revision: ExpectedRevision


class CompactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The assessment of the latest observation. Fields about a write are there only after one."""

    ok: Literal[True] = True
    version: Literal[1] = 1
    read_only: bool
    project_revision: int
    project_id: str
    freshness_basis: Literal["runtime_records_only"] = "runtime_records_only"
    session: str
    state: State
    observation_event_id: str | None
    recorded_event_id: str | UnsetType = UNSET
    already_recorded: bool | UnsetType = UNSET
    post_compaction_percent: float | None
    previous_delta_percentage_points: float | None
    policy: Policy
    guidance: Card
    native_compaction: Literal["unchanged"] = "unchanged"
    session_switch_performed: Literal[False] = False
    observation: Observation | UnsetType | None = UNSET
    previous_observation: Observation | UnsetType | None = UNSET
    deferral_event_id: str | UnsetType | None = UNSET
    measurement_basis: str | UnsetType = UNSET


def observe(project: Project, request: ObserveRequest) -> CompactionResult:
    """Record one completed compaction. An exact retry writes nothing and answers with the current state.

    Raise RuleViolation, InvalidInput, NotFound, RevisionConflict, InvalidTransition or SourceConflict.
    """
    policy = request.policy or DEFAULT_POLICY
    refuse_secrets(msgspec.to_builtins(request.observation), what="the observation")
    validate_observation(request.observation, now=project.journal.clock())
    validate_policy(policy)
    with project.journal.write() as writer:
        session = work_bound_session(writer, request.session)
        event_id, already = record_observation(
            writer, session, request.observation, policy=policy, expected_revision=request.expected_revision
        )
        return _written(writer, session, event_id=event_id, already_recorded=already)


def inspect(project: Project, request: InspectRequest) -> CompactionResult:
    """Assess the latest observation of a session, active or not. Write nothing. Raise NotFound."""
    with project.journal.read() as reader:
        session = session_by_id(reader.database, request.session)
        result = assess_session(reader, session, read_only=True)
        return _with_observations(reader, result) if request.include_observation else result


def defer(project: Project, request: DeferRequest) -> CompactionResult:
    """Postpone the advice about the latest observation; it lapses with the next one.

    Raise NotFound, RevisionConflict, InvalidTransition or SourceConflict.
    """
    with project.journal.write() as writer:
        session = session_by_id(writer.database, request.session)
        recorded = deferral_of(writer.database, session.id, request.observation_event_id)
        if recorded is not None:
            return _written(writer, session, event_id=recorded, already_recorded=True)
        writer.require_revision(request.expected_revision)
        require_active(session)
        _require_latest(writer, session, request.observation_event_id)
        event = writer.append(
            "client.compaction_deferred",
            {"observation_event_id": request.observation_event_id},
            summary="Compaction advice deferred",
            importance="low",
            work_item_id=session.work_item_id,
            session_id=session.id,
            branch_id=session.branch_id,
        )
        return _written(writer, session, event_id=event.id, already_recorded=False)


def work_bound_session(reader: Reader, session_id: str) -> Session:
    """Return the session. Raise NotFound, or InvalidInput when it is bound to no work item."""
    session = session_by_id(reader.database, session_id)
    if session.work_item_id is None:
        raise InvalidInput(
            "a compaction belongs to a session that is bound to work",
            got="a session without a work item",
            expected="a session started with --work",
            next_step="start a session for the work item and report the compaction there",
        )
    return session


def record_observation(
    writer: Writer,
    session: Session,
    observation: Observation,
    *,
    policy: Policy,
    expected_revision: int | None,
) -> tuple[str, bool]:
    """Append a validated observation unless this very one is recorded. Return its event id and whether it was."""
    recorded = recorded_observation(writer.database, session.id, observation.compaction_id)
    if recorded is not None:
        if recorded.observation == observation and recorded.policy == policy:
            return recorded.event_id, True
        raise SourceConflict(
            "this compaction is recorded with other values",
            got="the same compaction_id with a changed observation or policy",
            expected="the same content as recorded, or another compaction_id",
            next_step="inspect the session with --include-observation; a record is never changed",
            event_id=recorded.event_id,
        )
    writer.require_revision(expected_revision)
    require_active(session)
    _require_order(writer, session, observation)
    event = writer.append(
        "client.compaction_observed",
        {"observation": observation, "policy": policy},
        summary="Native compaction observed",
        importance="low",
        work_item_id=session.work_item_id,
        session_id=session.id,
        branch_id=session.branch_id,
    )
    return event.id, False


def _require_order(writer: Writer, session: Session, observation: Observation) -> None:
    latest = latest_observations(writer.database, session.id)
    if not latest:
        return
    prior = latest[0].observation
    if observation.sequence > prior.sequence and observation.observed_at >= prior.observed_at:
        return
    raise SourceConflict(
        "the observation comes before one that is recorded",
        got=f"sequence {observation.sequence}, observed_at {observation.observed_at}",
        expected=f"a sequence above {prior.sequence} and observed_at of at least {prior.observed_at}",
        next_step="report compactions in the order they happened; a new native window gets a session of its own",
    )


def _require_latest(writer: Writer, session: Session, observation_event_id: str) -> None:
    latest = latest_observations(writer.database, session.id)
    if latest and latest[0].event_id == observation_event_id:
        return
    raise SourceConflict(
        "only the latest observation of a session can be deferred",
        got="an event that is not this session's latest observation",
        expected=latest[0].event_id if latest else "an observation, and the session has none",
        next_step="inspect the session and defer the observation_event_id it names",
    )


def _written(writer: Writer, session: Session, *, event_id: str, already_recorded: bool) -> CompactionResult:
    result = assess_session(writer, session, read_only=False)
    return msgspec.structs.replace(result, recorded_event_id=event_id, already_recorded=already_recorded)


def assess_session(reader: Reader, session: Session, *, read_only: bool) -> CompactionResult:
    """Assess the latest observation of a session and choose its card."""
    recorded = latest_observations(reader.database, session.id)
    latest = next(iter(recorded), None)
    assessment = assess_observations(recorded)
    # The guard replaces only the card: what was measured stays what it is.
    card = session_guard(reader, session) or compaction_card(assessment)
    card_bytes(card)
    return CompactionResult(
        read_only=read_only,
        project_revision=reader.project_revision,
        project_id=reader.project_id,
        session=session.id,
        state=assessment.state,
        observation_event_id=latest.event_id if latest else None,
        post_compaction_percent=assessment.post_compaction_percent,
        previous_delta_percentage_points=assessment.previous_delta_percentage_points,
        policy=assessment.policy,
        guidance=card,
    )


def assess_observations(recorded: list[RecordedObservation]) -> Assessment:
    """Assess a session's newest observation against the one before; the list has them newest first."""
    latest, previous = (*recorded, None, None)[:2]
    return assess(
        latest.observation if latest else None,
        previous=previous.observation if previous else None,
        policy=latest.policy if latest else DEFAULT_POLICY,
        deferred=latest is not None and latest.deferral_event_id is not None,
    )


def _with_observations(reader: Reader, result: CompactionResult) -> CompactionResult:
    recorded = latest_observations(reader.database, result.session)
    latest, previous = (*recorded, None, None)[:2]
    return msgspec.structs.replace(
        result,
        observation=latest.observation if latest else None,
        previous_observation=previous.observation if previous else None,
        deferral_event_id=latest.deferral_event_id if latest else None,
        measurement_basis=BASIS_NOTE,
    )
