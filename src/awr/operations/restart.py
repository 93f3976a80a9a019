"""Asking whether a restart would be smaller than what a session holds. Nothing is restarted."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.context.compile import compile_context
from awr.context.request import DEFAULT_BUDGET, ContextRequest
from awr.context.restart import HostBasis, RestartEstimate, estimate, footprint_of, host_part
from awr.journal.checkpoints import checkpoint_by_id
from awr.journal.compactions import latest_observations
from awr.operations.context import Budget, Cached, context_profile, looked_at, token_counter
from awr.operations.fields import SessionId, described
from awr.project import Project

__all__ = ["RestartRequest", "RestartResult", "restart_estimate"]

Basis = Annotated[HostBasis, described("Where that number comes from.")]


class RestartRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: SessionId
    fixed_tokens: (
        Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000, description="Tokens of the host's fixed instructions.")]
        | None
    ) = None
    fixed_basis: Basis | None = None
    tools_tokens: (
        Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000, description="Tokens of the host's tool definitions.")]
        | None
    ) = None
    tools_basis: Basis | None = None
    budget: Budget = DEFAULT_BUDGET
    cached: Cached = False


class RestartResult(RestartEstimate, frozen=True, kw_only=True):
    """What a restart would take. Nothing is restarted, and no cost is stated."""

    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[True] = True
    source_refresh_performed: bool
    session: str
    context_complete: bool
    session_switch_performed: Literal[False] = False


def restart_estimate(project: Project, request: RestartRequest) -> RestartResult:
    """Estimate a complete restart of a session. Raise InvalidInput, NotFound or BudgetExceeded."""
    fixed = host_part("fixed instructions", request.fixed_tokens, request.fixed_basis)
    tools = host_part("tools", request.tools_tokens, request.tools_basis)
    refreshed = looked_at(project, cached=request.cached)
    counter = token_counter(project)
    with project.journal.read() as reader:
        report = compile_context(
            reader,
            ContextRequest(session=request.session, budget=request.budget),
            counter=counter,
            profile=context_profile(project),
            refreshed=refreshed,
        )
        latest = next(iter(latest_observations(reader.database, request.session)), None)
        checkpoint = checkpoint_by_id(reader.database, report.checkpoint_id) if report.checkpoint_id else None
        footprint = footprint_of(latest.observation if latest else None, latest.event_id if latest else None)
        found = estimate(
            report, checkpoint, fixed_instructions=fixed, tools=tools, footprint=footprint, counter=counter
        )
        revision = reader.project_revision
    counter.save()
    return RestartResult(
        **msgspec.structs.asdict(found),
        project_revision=revision,
        source_refresh_performed=refreshed is not None,
        session=request.session,
        context_complete=report.completeness.complete,
    )
