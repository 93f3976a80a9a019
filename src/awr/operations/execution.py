"""Executions outside AWR: announcing one, recording what its host reports, and seeing which outcome is unknown."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.domain.execution import Execution, Intent, Report, is_uncertain, validate_intent, validate_report
from awr.domain.secrets import refuse_secrets
from awr.errors import InvalidTransition, SourceConflict
from awr.journal.executions import (
    execution_by_id,
    execution_by_key,
    executions,
    recorded_report,
    reports_of,
)
from awr.journal.sessions import session_by_id
from awr.operations.fields import ExpectedRevision, Limit, SessionId, VisibleTo, described, work_entity
from awr.operations.selection import require_active, work_of
from awr.project import Project

__all__ = [
    "ExecutionResult",
    "ExecutionView",
    "ListRequest",
    "ListResult",
    "RegisterRequest",
    "ReportRequest",
    "ReportResult",
    "ShowRequest",
    "ShowResult",
    "listing",
    "register",
    "report",
    "show",
]


class RegisterRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: SessionId
    operation_key: Annotated[str, described("The project's own name of this run; a key never runs twice.")]
    purpose: Annotated[str, described("What it is for.")]
    expected_revision: ExpectedRevision
    command: Annotated[tuple[str, ...], described("A word of the command; may be repeated.")] = ()
    cwd: Annotated[str | None, described("Where it runs.")] = None
    external_reference: Annotated[str | None, described("How its host names it.")] = None


class ReportRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    expected_revision: ExpectedRevision
    report: Report


class ListRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: Annotated[str | None, described("Only those of this work item.")] = None
    limit: Limit = 20
    visible_to: VisibleTo = None


class ShowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    execution: Annotated[str, described("The execution's id.", argument=True)]


class ExecutionView(msgspec.Struct, frozen=True):
    """An execution, and whether its outcome is unknown."""

    execution: Execution
    uncertain: bool


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[False] = False
    execution: Execution
    uncertain: bool
    already_registered: bool
    event_id: str | None


class ReportResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[False] = False
    execution: Execution
    uncertain: bool
    already_recorded: bool
    event_id: str


class ListResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    read_only: Literal[True] = True
    executions: tuple[ExecutionView, ...]


class ShowResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    read_only: Literal[True] = True
    execution: Execution
    uncertain: bool
    reports: tuple[Report, ...]


def register(project: Project, request: RegisterRequest) -> ExecutionResult:
    """Announce something that runs outside AWR. The same key with the same intent returns the record.

    Raise InvalidInput, RuleViolation, NotFound, RevisionConflict, InvalidTransition, or SourceConflict for a key with
    another intent.
    """
    intent = Intent(
        operation_key=request.operation_key,
        purpose=request.purpose,
        executor="external",
        command=request.command,
        cwd=request.cwd,
        external_reference=request.external_reference,
    )
    refuse_secrets(msgspec.to_builtins(intent), what="the execution")
    validate_intent(intent)
    with project.journal.write() as writer:
        session = session_by_id(writer.database, request.session)
        work_item_id = work_of(session)
        known = execution_by_key(writer.database, intent.operation_key)
        if known is not None:
            if known.intent != intent or known.work_item_id != work_item_id:
                raise SourceConflict(
                    "this operation key belongs to another execution",
                    got="the same key with another intent or work item",
                    expected="a key of its own for each thing that runs",
                    next_step="look at it with awr execution list, and choose another key",
                    execution_id=known.id,
                )
            return ExecutionResult(
                project_revision=writer.project_revision,
                execution=known,
                uncertain=is_uncertain(known),
                already_registered=True,
                event_id=None,
            )
        writer.require_revision(request.expected_revision)
        require_active(session)
        execution_id = writer.new_id()
        event = writer.append(
            "execution.registered",
            {"execution_id": execution_id, "intent": intent},
            summary="Execution registered",
            work_item_id=work_item_id,
            session_id=session.id,
        )
        return ExecutionResult(
            project_revision=writer.project_revision,
            execution=execution_by_id(writer.database, execution_id),
            uncertain=False,
            already_registered=False,
            event_id=event.id,
        )


def report(project: Project, request: ReportRequest) -> ReportResult:
    """Record a host's statement about an execution. An exact retry writes nothing.

    Raise InvalidInput, RuleViolation, NotFound, RevisionConflict, or SourceConflict for a changed retry.
    """
    refuse_secrets(msgspec.to_builtins(request.report), what="the report")
    validate_report(request.report, now=project.journal.clock())
    with project.journal.write() as writer:
        execution = execution_by_id(writer.database, request.report.execution_id)
        recorded = recorded_report(writer.database, request.report.request_key)
        if recorded is not None and recorded[1] != request.report:
            raise SourceConflict(
                "this report is recorded with other content",
                got="the same request_key with a changed report",
                expected="the same content, or another request_key",
                next_step="look at it with awr execution show; a record is never changed",
            )
        if recorded is None:
            writer.require_revision(request.expected_revision)
            if execution.intent.executor != "external":
                raise InvalidTransition(
                    "only an external execution is reported",
                    expected="an execution that was registered as external",
                    next_step="register it first",
                )
            event_id = writer.append(
                "execution.external_reported",
                {"report": request.report},
                summary=f"Execution reported: {request.report.phase}",
                importance="high",
                work_item_id=execution.work_item_id,
                session_id=execution.session_id,
            ).id
        else:
            event_id = recorded[0]
        now = execution_by_id(writer.database, execution.id)
        return ReportResult(
            project_revision=writer.project_revision,
            execution=now,
            uncertain=is_uncertain(now),
            already_recorded=recorded is not None,
            event_id=event_id,
        )


def listing(project: Project, request: ListRequest) -> ListResult:
    """Return executions, newest first, or those of one work item. Raise NotFound."""
    with project.journal.read() as reader:
        work = work_entity(reader.database, request.work) if request.work is not None else None
        found = executions(
            reader.database,
            limit=request.limit,
            work_item_id=work.id if work else None,
            client=request.visible_to,
        )
        return ListResult(
            project_revision=reader.project_revision,
            executions=tuple(ExecutionView(one, is_uncertain(one)) for one in found),
        )


def show(project: Project, request: ShowRequest) -> ShowResult:
    """Return one execution with everything reported of it. Raise NotFound."""
    with project.journal.read() as reader:
        found = execution_by_id(reader.database, request.execution)
        return ShowResult(
            project_revision=reader.project_revision,
            execution=found,
            uncertain=is_uncertain(found),
            reports=tuple(reports_of(reader.database, found.id)),
        )
