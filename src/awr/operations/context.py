"""Asking what must be known of a work item before it is worked on.

The files are looked at first. A source that cannot be brought up to date is no error here: the answer is given from
what is known, says what is missing, and is then not complete.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from awr.context.compile import ContextReport, compile_context
from awr.context.request import DEFAULT_BUDGET, MAX_BUDGET, ContextRequest
from awr.context.tokens import TokenCounter
from awr.domain.secrets import refuse_secrets
from awr.errors import ContextIncomplete
from awr.operations.fields import Branch, described, require_main
from awr.project import Project
from awr.sources.index import RefreshReport, refresh
from awr.sources.manifest import read_manifest

__all__ = [
    "Budget",
    "Cached",
    "CompileRequest",
    "CompileResult",
    "Work",
    "compile",
    "compiled",
    "context_profile",
    "incomplete",
    "looked_at",
    "refuse_secret_texts",
    "token_counter",
]

Work = Annotated[str | None, described("The work item's key; left out, the session's or the only one under way.")]
Cached = Annotated[
    bool, described("Answer from what was last indexed; the answer then says that the files were not looked at.")
]
Budget = Annotated[
    int, msgspec.Meta(ge=1, le=MAX_BUDGET, description="How many o200k_base tokens the text may have.")
]


class CompileRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: Work = None
    session: Annotated[str | None, described("The session it is for; left out, for none.")] = None
    detached: Annotated[bool, described("Compile for a session that does not exist yet; needs --work.")] = False
    agent: Annotated[str | None, described("The agent it is for; rules may depend on it.")] = None
    branch: Branch = None
    goals: Annotated[tuple[str, ...], described("A goal to tell of; may be repeated.", option="--goal")] = ()
    paths: Annotated[
        tuple[str, ...] | None,
        described("A file the work touches; may be repeated. Left out, not known.", option="--path"),
    ] = None
    tags: Annotated[
        tuple[str, ...] | None,
        described("A tag of the work beside the ledger's; may be repeated.", option="--tag"),
    ] = None
    source_sha: Annotated[str | None, described("The commit to judge evidence by.")] = None
    intent: Annotated[str, described("What the context is for.")] = "work"
    budget: Budget = DEFAULT_BUDGET
    checkpoint: Annotated[str | None, described("Tell what happened since this checkpoint.")] = None
    after_revision: (
        Annotated[int, msgspec.Meta(ge=0, le=2**62, description="Tell what happened after this project revision.")]
        | None
    ) = None
    cached: Cached = False


class CompileResult(ContextReport, frozen=True, kw_only=True):
    """A compiled context. `ok` is whether it is complete; `error` is there only when it is not."""

    ok: bool
    project_revision: int
    read_only: Literal[True] = True
    error: dict[str, object] | UnsetType = UNSET

    def problem(self) -> ContextIncomplete | None:
        """Return the error that an incomplete context ends with, after it was shown."""
        return None if self.ok else incomplete(self)


def compile(project: Project, request: CompileRequest) -> CompileResult:
    """Compile what must be known of one work item. An incomplete answer says what is missing.

    Raise InvalidInput, NotFound, RuleViolation, BudgetExceeded or Unsupported.
    """
    require_main(request.branch)
    wanted = _context_request(request)
    refreshed = looked_at(project, cached=request.cached)
    report = compiled(project, wanted, refreshed=refreshed)
    result = CompileResult(
        **msgspec.structs.asdict(report),
        ok=report.completeness.complete,
        project_revision=report.completeness.project_revision,
    )
    return result if result.ok else msgspec.structs.replace(result, error=incomplete(result).report())


def token_counter(project: Project) -> TokenCounter:
    """Return a counter that keeps its counts in the project's own cache folder."""
    return TokenCounter(project.cache_folder)


def _context_request(request: CompileRequest) -> ContextRequest:
    refuse_secret_texts(request.work, request.agent, request.intent, *request.goals, *(request.paths or ()))
    refuse_secret_texts(*(request.tags or ()))
    return ContextRequest(
        work=request.work,
        session=request.session,
        detached=request.detached,
        agent=request.agent,
        goals=request.goals,
        paths=request.paths,
        tags=request.tags,
        source_sha=request.source_sha,
        intent=request.intent,
        budget=request.budget,
        checkpoint=request.checkpoint,
        after_revision=request.after_revision,
    )


def compiled(project: Project, request: ContextRequest, *, refreshed: RefreshReport | None) -> ContextReport:
    """Compile what is recorded now, and keep the counts that had to be made. Raise what compile_context raises."""
    counter, profile = token_counter(project), context_profile(project)
    with project.journal.read() as reader:
        report = compile_context(reader, request, counter=counter, profile=profile, refreshed=refreshed)
    counter.save()
    return report


def refuse_secret_texts(*texts: str | None) -> None:
    """Raise RuleViolation when a text of a request holds a secret."""
    refuse_secrets([text for text in texts if text is not None], what="the request")


def looked_at(project: Project, *, cached: bool) -> RefreshReport | None:
    """Refresh the sources and return what was found; None when only what was indexed is wanted."""
    return None if cached else refresh(project)


def context_profile(project: Project) -> Literal["standard", "minimal"]:
    """Return which sources this project says it must have."""
    return read_manifest(project.manifest_path).context_profile


def incomplete(report: ContextReport) -> ContextIncomplete:
    """Return the error of a context that lacks something, naming what by its codes."""
    codes = dict.fromkeys(issue.code for issue in report.completeness.issues)
    return ContextIncomplete(
        "required context is incomplete",
        got=", ".join(codes),
        expected="every required part known",
        next_step=report.diagnostic_text or "resolve the listed gaps for this work, then compile again",
    )
