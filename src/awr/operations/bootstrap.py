"""Asking what a session needs at its start, before it asks for the rest."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.context.bootstrap import DEFAULT_BUDGET, BootstrapReport, bootstrap_context
from awr.context.request import ContextRequest
from awr.operations.context import (
    Budget,
    Cached,
    Work,
    context_profile,
    looked_at,
    refuse_secret_texts,
    token_counter,
)
from awr.operations.fields import Branch, described, require_main
from awr.project import Project

__all__ = ["BootstrapRequest", "BootstrapResult", "bootstrap"]


class BootstrapRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: Work = None
    session: Annotated[str | None, described("The session that starts.")] = None
    agent: Annotated[str | None, described("The agent it is for; rules may depend on it.")] = None
    branch: Branch = None
    budget: Budget = DEFAULT_BUDGET
    cached: Cached = False


class BootstrapResult(BootstrapReport, frozen=True, kw_only=True):
    """The start of a session. Gaps in it are no error: compiling the context is what comes next."""

    ok: Literal[True] = True
    project_revision: int
    read_only: Literal[True] = True
    source_refresh_performed: bool


def bootstrap(project: Project, request: BootstrapRequest) -> BootstrapResult:
    """Give the start of a session. Raise InvalidInput, NotFound, RuleViolation, BudgetExceeded or Unsupported."""
    require_main(request.branch)
    refuse_secret_texts(request.work, request.agent)
    wanted = ContextRequest(work=request.work, session=request.session, agent=request.agent, budget=request.budget)
    refreshed = looked_at(project, cached=request.cached)
    counter, profile = token_counter(project), context_profile(project)
    with project.journal.read() as reader:
        report = bootstrap_context(reader, wanted, counter=counter, profile=profile, refreshed=refreshed)
        revision = reader.project_revision
    counter.save()
    return BootstrapResult(
        **msgspec.structs.asdict(report), project_revision=revision, source_refresh_performed=refreshed is not None
    )
