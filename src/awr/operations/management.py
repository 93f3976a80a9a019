"""Assessing how closely work has to be managed, and recording what a host observed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from awr.domain.execution import is_uncertain
from awr.domain.management import (
    Decision,
    Facts,
    ManagementObservation,
    admission_gaps,
    contract_fingerprint,
    decide,
    validate_management_observation,
)
from awr.domain.secrets import refuse_secrets
from awr.domain.text import bounded_text
from awr.domain.work import WorkItem
from awr.errors import RuleViolation, SourceConflict
from awr.journal.events import event_by_id
from awr.journal.executions import executions_of_work
from awr.journal.journal import Reader
from awr.journal.management import latest_management, management_by_request
from awr.journal.sessions import session_by_id
from awr.journal.sources import EntityRow, source_by_id
from awr.operations.fields import Branch, Cached, ExpectedRevision, WorkKey, described, require_main, work_entity
from awr.operations.selection import require_active
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.index import refreshed_write, require_fresh

__all__ = [
    "AssessRequest",
    "AssessResult",
    "Assessment",
    "ManageRequest",
    "ManageResult",
    "assess",
    "assess_work",
    "manage",
]

SCOPE = "classification of one work item; it admits no execution, approves nothing and changes no completion rule"


class AssessRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    branch: Branch = None
    cached: Cached = False


class ManageRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: Annotated[str, described("The work item's key in the ledger.")]
    session: Annotated[str, described("The session that observed.")]
    expected_revision: ExpectedRevision
    request_key: Annotated[str, described("Your own name of this request; the same key never records twice.")]
    contract_fingerprint: Annotated[str, described("The fingerprint that awr work assess returned.")]
    observation: Annotated[ManagementObservation, described("What the host knows.")]


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """The assessment of one work item. `record_required` says that it is not on record as it stands."""

    version: Literal[1] = 1
    work: str
    work_id: str
    work_revision: int
    source_ref: str
    branch_id: None = None
    contract_fingerprint: str
    decision: Decision
    observation: ManagementObservation | None
    observation_basis: Literal["host_assertion", "none"]
    observer: dict[str, str] | None
    observation_event: str | None
    previous_record: dict[str, Any] | None
    record_required: bool
    admission_gaps: tuple[str, ...]
    next_action: str
    scope: str = SCOPE


class AssessResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["source_refresh", "last_recorded_source_state"]
    read_only: Literal[True] = True
    assessment: Assessment


class ManageResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[False] = False
    already_recorded: bool
    assessment: Assessment
    event_id: str


class _Input(msgspec.Struct, frozen=True):
    contract_fingerprint: str
    observation: ManagementObservation


class _Stored(msgspec.Struct, frozen=True):
    request_key: str
    input: _Input
    observer: dict[str, str]
    assessment: Assessment


def assess(project: Project, request: AssessRequest) -> AssessResult:
    """Assess a work item from what is on record. Raise NotFound or SourceStale."""
    require_main(request.branch)
    if not request.cached:
        require_fresh(project)
    with project.journal.read() as reader:
        return AssessResult(
            project_revision=reader.project_revision,
            freshness_basis="last_recorded_source_state" if request.cached else "source_refresh",
            assessment=assess_work(reader, work_entity(reader.database, request.work)),
        )


def manage(project: Project, request: ManageRequest) -> ManageResult:
    """Record an observation and the assessment it leads to. An exact retry answers with the original.

    Raise InvalidInput, RuleViolation, NotFound, RevisionConflict, InvalidTransition, or SourceConflict for a changed
    retry or a contract that changed since it was assessed.
    """
    bounded_text("request_key", request.request_key, limit=512)
    refuse_secrets(request.observation.note, what="the management note")
    validate_management_observation(request.observation, now=project.journal.clock())
    given = _Input(request.contract_fingerprint, request.observation)
    replay = _replayed(project, request, given)
    if replay is not None:
        return replay
    with refreshed_write(project, expected_revision=request.expected_revision) as writer:
        work = work_entity(writer.database, request.work)
        session = session_by_id(writer.database, request.session)
        require_active(session)
        if session.work_item_id != work.id:
            raise RuleViolation(
                "the session is bound to other work",
                expected="a session of this work item",
                next_step="name a session that was started for this work",
            )
        observer = {"session_id": session.id, "agent_id": session.agent_id}
        assessment = assess_work(writer, work, observation=request.observation, observer=observer)
        if assessment.contract_fingerprint != request.contract_fingerprint:
            raise SourceConflict(
                "the work's contract changed since it was assessed",
                expected=assessment.contract_fingerprint,
                next_step="assess the work again and send its fingerprint",
            )
        event = writer.append(
            "management.assessed",
            {
                "version": 1,
                "request_key": request.request_key,
                "input": given,
                "observer": observer,
                "assessment": assessment,
            },
            summary=f"Management assessed: {assessment.decision.mode}",
            work_item_id=work.id,
            session_id=session.id,
        )
        return ManageResult(
            project_revision=writer.project_revision,
            already_recorded=False,
            assessment=assessment,
            event_id=event.id,
        )


def assess_work(
    reader: Reader,
    work: EntityRow,
    *,
    observation: ManagementObservation | None = None,
    observer: dict[str, str] | None = None,
) -> Assessment:
    """Assess one work item. Without an observation the latest recorded one counts."""
    contents = Contents(reader)
    item = contents.work_item(work.external_key)
    assert item is not None, "an entity that is not retired has content"
    previous = latest_management(reader.database, work.id)
    stored = _stored(reader, previous.event_id) if previous else None
    known = observation or (stored.input.observation if stored else None)
    fingerprint = contract_fingerprint(item, work_id=work.id)
    facts = _facts(reader, contents, item, work, fingerprint=fingerprint)
    decision = decide(known, facts=facts)
    required = previous is None or previous.mode != decision.mode or previous.contract_fingerprint != fingerprint
    source = source_by_id(reader.database, work.source_id)
    return Assessment(
        work=item.external_key,
        work_id=work.id,
        work_revision=work.revision,
        source_ref=f"{source.locator if source else ''}:{item.line}",
        contract_fingerprint=fingerprint,
        decision=decision,
        observation=known,
        observation_basis="host_assertion" if known else "none",
        observer=observer or (stored.observer if stored else None),
        observation_event=None if observation or previous is None else previous.event_id,
        previous_record=msgspec.to_builtins(previous) if previous else None,
        record_required=required,
        admission_gaps=admission_gaps(item),
        next_action="record_known_observations_once" if required else "keep_the_recorded_management",
    )


def _replayed(project: Project, request: ManageRequest, given: _Input) -> ManageResult | None:
    with project.journal.read() as reader:
        recorded = management_by_request(reader.database, request.request_key)
        if recorded is None:
            return None
        stored = _stored(reader, recorded.event_id)
        work = work_entity(reader.database, request.work)
        if stored is None or stored.input != given or recorded.work_item_id != work.id:
            raise SourceConflict(
                "this request key recorded something else",
                got="the same request_key with other content",
                expected="the same content, or another request_key",
                next_step="choose another request_key; a record is never changed",
            )
        return ManageResult(
            project_revision=reader.project_revision,
            already_recorded=True,
            assessment=stored.assessment,
            event_id=recorded.event_id,
        )


def _stored(reader: Reader, event_id: str) -> _Stored | None:
    event = event_by_id(reader.database, event_id)
    return None if event is None else msgspec.json.decode(event.payload, type=_Stored)


def _facts(reader: Reader, contents: Contents, item: WorkItem, work: EntityRow, *, fingerprint: str) -> Facts:
    previous = latest_management(reader.database, work.id)
    required = [dependency.key for dependency in item.depends_on if dependency.required]
    open_dependencies = any(_is_open(contents.work_item(key)) for key in required)
    history = reader.database.rows(
        "SELECT DISTINCT event_type FROM events WHERE work_item_id = ? "
        "AND event_type IN ('mcp.wait_created', 'work.handoff', 'session.resumed')",
        (work.id,),
    )
    types = {row["event_type"] for row in history}
    return Facts(
        unresolved_dependencies=open_dependencies,
        contract_changed=previous is not None and previous.contract_fingerprint != fingerprint,
        persistent_wait="mcp.wait_created" in types,
        handed_over="work.handoff" in types,
        resumed_across_sessions="session.resumed" in types,
        uncertain_execution=any(is_uncertain(one) for one in executions_of_work(reader.database, work.id)),
        previously_continuous=previous is not None and previous.mode == "continuous",
    )


def _is_open(item: WorkItem | None) -> bool:
    return item is None or item.status != "completed"
