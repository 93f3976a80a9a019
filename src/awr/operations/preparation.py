"""Preparing work: what must be known, what stands in the way, and the one next action, in three sizes of answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from awr.context.compile import ContextReport
from awr.context.request import DEFAULT_BUDGET, ContextRequest
from awr.domain.card import (
    MAX_CARD_BYTES,
    Card,
    card_bytes,
    compaction_card,
    management_card,
    not_ready_card,
    ordinary_card,
    required_gaps_card,
)
from awr.domain.compaction import Assessment as CompactionAssessment
from awr.domain.session import Session, Wait
from awr.domain.work import Diagnostic, WorkItem
from awr.errors import AwrError, ContextIncomplete
from awr.journal.checkpoints import waits_of
from awr.journal.compactions import latest_observations
from awr.journal.journal import Reader
from awr.journal.sessions import active_claim
from awr.journal.sources import EntityRow, source_by_id
from awr.operations.compaction import assess_observations
from awr.operations.context import compiled
from awr.operations.fields import Branch, WorkKey, described, require_main, work_entity
from awr.operations.guidance import session_guard
from awr.operations.management import Assessment, assess_work
from awr.operations.selection import session_for_work
from awr.operations.work import ActiveClaim
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.index import refresh

__all__ = ["PrepareRequest", "PrepareResult", "prepare"]

View = Literal["full", "summary", "action"]
_CONTINUABLE = frozenset({"planned", "ready", "in_progress", "claimed"})
_OWN_CLAIM_CODES = frozenset({"status_not_selectable", "active_claim"})
#: What one action can do without: what stands elsewhere in the same answer, and prose that never changes.
_ACTION_DROPS = (
    ("context", "completeness", "project_id"),
    ("context", "completeness", "project_revision"),
    ("context", "completeness", "work_item_key"),
    ("context", "completeness", "branch_id"),
    ("context", "completeness", "source_refresh_performed"),
    ("context", "completeness", "status"),
    ("context", "completeness", "assessment_scope"),
    ("context", "diagnostic_text"),
    ("context", "work_context", "token_count_scope"),
    ("management", "scope"),
    ("management", "next_action"),
    ("management", "work"),
    ("management", "work_id"),
    ("management", "work_revision"),
    ("management", "source_ref"),
    ("management", "branch_id"),
    ("management", "decision", "optional_maintenance"),
    ("next_action",),
)
_SUMMARY_DROPS = (("context", "work_context", "selected_chunks"), ("context", "work_context", "selected_entities"))


class PrepareRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    session: Annotated[str | None, described("The session that will do it.")] = None
    branch: Branch = None
    goals: Annotated[tuple[str, ...], described("A goal's key; may be repeated.", option="--goal")] = ()
    source_sha: Annotated[str | None, described("The full id of the commit worked on.")] = None
    budget: Annotated[
        int, msgspec.Meta(ge=1, le=100_000, description="How many tokens the compiled context may have.")
    ] = DEFAULT_BUDGET
    response_view: Annotated[View, described("How much to return: everything, less of it, or one action.")] = "full"


class PrepareResult(msgspec.Struct, frozen=True):
    """One prepared work item in the view that was asked for. `body` is the public JSON."""

    body: dict[str, Any]

    def public(self) -> dict[str, Any]:
        """Return the part that is JSON."""
        return self.body

    def problem(self) -> AwrError | None:
        """Return the error that incomplete required context means, or None."""
        if self.body["ok"]:
            return None
        return ContextIncomplete(
            "the required context is not complete",
            got=f"{len(self.body['context']['completeness']['issues'])} issues",
            expected="every required fact known and fresh",
            next_step="resolve the issues that the completeness lists, then prepare the work again",
        )


class _Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a view or a card is made of."""

    known: EntityRow
    item: WorkItem
    session: Session | None
    context: ContextReport
    diagnostics: tuple[Diagnostic, ...]
    active_claims: tuple[ActiveClaim, ...]
    management: Assessment
    waits: tuple[Wait, ...]
    guard: Card | None
    compaction: CompactionAssessment | None
    observation_event_id: str | None
    source_ref: str
    project_revision: int


def prepare(project: Project, request: PrepareRequest) -> PrepareResult:
    """Return a work item with its compiled context. Incomplete context is a result that knows of its problem.

    Raise NotFound, InvalidInput, RuleViolation, Unsupported or BudgetExceeded.
    """
    require_main(request.branch)
    refreshed = refresh(project)
    with project.journal.read() as reader:
        known = work_entity(reader.database, request.work)
    context = compiled(
        project,
        ContextRequest(
            work=request.work,
            session=request.session,
            detached=request.session is None,
            goals=request.goals,
            source_sha=request.source_sha,
            budget=request.budget,
        ),
        refreshed=refreshed,
    )
    with project.journal.read() as reader:
        prepared = _gathered(reader, request, known, context)
    body = _full(prepared)
    if request.response_view == "summary":
        body = _summary(body)
    elif request.response_view == "action":
        body = _action(body, prepared)
    return PrepareResult(body)


def _gathered(reader: Reader, request: PrepareRequest, known: EntityRow, context: ContextReport) -> _Prepared:
    contents = Contents(reader)
    item = contents.work_item(request.work)
    assert item is not None, "an entity that is not retired has content"
    session = None
    if request.session is not None:
        session = session_for_work(reader, known, session=request.session, agent=None)
    held = active_claim(reader.database, known.id)
    live = held is not None and (held.expires_at is None or held.expires_at > reader.now)
    observations = latest_observations(reader.database, session.id) if session else []
    source = source_by_id(reader.database, known.source_id)
    return _Prepared(
        known=known,
        item=item,
        session=session,
        context=context,
        diagnostics=contents.diagnostics(item),
        active_claims=(ActiveClaim(held.id, held.agent_id, held.session_id, held.expires_at),)
        if held and live
        else (),
        management=assess_work(reader, known),
        waits=tuple(waits_of(reader.database, session.id)) if session else (),
        guard=session_guard(reader, session) if session else None,
        compaction=assess_observations(observations) if observations else None,
        observation_event_id=observations[0].event_id if observations else None,
        source_ref=f"{source.locator if source else ''}:{item.line}",
        project_revision=reader.project_revision,
    )


def _full(prepared: _Prepared) -> dict[str, Any]:
    complete = prepared.context.completeness.complete
    waiting = any(one.status == "waiting_user" for one in prepared.waits)
    body: dict[str, Any] = msgspec.to_builtins(
        {
            "ok": complete,
            "project_revision": prepared.project_revision,
            "freshness_basis": "source_refresh",
            "source_refresh_performed": True,
            "read_only": True,
            "version": 1,
            "stage": "prepared",
            "work": {
                "id": prepared.known.id,
                "external_key": prepared.item.external_key,
                "status": prepared.item.status,
                "revision": prepared.known.revision,
                "source_ref": prepared.source_ref,
                "next_action": prepared.item.next_action,
            },
            "ready": not prepared.diagnostics,
            "diagnostics": prepared.diagnostics,
            "active_claims": prepared.active_claims,
            "context": prepared.context,
            "context_consumed": False,
            "completion_claimed": False,
            "management": prepared.management,
            "continuity": {"state": "waiting_user" if waiting else "available", "waits": prepared.waits},
            "next_action": _next_action(prepared, waiting=waiting),
        }
    )
    return body


def _next_action(prepared: _Prepared, *, waiting: bool) -> str:
    if waiting:
        return "resolve_persistent_wait_before_resuming"
    if not prepared.context.completeness.complete:
        return "resolve_required_context_gaps"
    if prepared.diagnostics:
        return "inspect_readiness_and_current_claim"
    return "consume_context_then_start_or_resume_session"


def _summary(body: dict[str, Any]) -> dict[str, Any]:
    if not body["ok"]:
        return body
    omitted = [path for path in _SUMMARY_DROPS if _drop(body, path)]
    if omitted:
        body["response_view"] = {
            "version": 1,
            "view": "summary",
            "omitted_fields": [".".join(path) for path in omitted],
        }
    return body


def _action(body: dict[str, Any], prepared: _Prepared) -> dict[str, Any]:
    omitted: list[tuple[str, ...]] = []
    if body["ok"]:
        drops = [*_SUMMARY_DROPS, *_ACTION_DROPS]
        identity = body["context"]["work_context"]["identity"]["source_versions"]
        if body["context"]["completeness"]["source_versions"] == identity:
            drops.append(("context", "completeness", "source_versions"))
        omitted = [path for path in drops if _drop(body, path)]
    if prepared.compaction is not None:
        body["continuity"]["compaction"] = {
            "state": prepared.compaction.state,
            "observation_event_id": prepared.observation_event_id,
            "post_compaction_percent": prepared.compaction.post_compaction_percent,
        }
    card = _card(prepared)
    card_bytes(card)
    body["guidance"] = msgspec.to_builtins(card)
    body["response_view"] = {
        "version": 1,
        "view": "action",
        "omitted_fields": _listed(omitted),
        "guidance_max_bytes": MAX_CARD_BYTES,
    }
    return body


def _card(prepared: _Prepared) -> Card:
    """Choose the one card. The first that holds counts, and the order is the contract's."""
    if prepared.guard is not None:
        return prepared.guard
    completeness = prepared.context.completeness
    if not completeness.complete:
        return required_gaps_card(len(completeness.issues))
    if prepared.diagnostics and not _is_continuation(prepared):
        return not_ready_card(len(prepared.diagnostics))
    if prepared.compaction is not None and prepared.compaction.state == "handoff_candidate":
        return compaction_card(prepared.compaction)
    if prepared.management.record_required:
        return management_card()
    return ordinary_card()


def _is_continuation(prepared: _Prepared) -> bool:
    """Tell whether all that speaks against a new claim is that this very session holds the work."""
    session = prepared.session
    return (
        session is not None
        and bool(prepared.active_claims)
        and all(one.session_id == session.id for one in prepared.active_claims)
        and prepared.item.status in _CONTINUABLE
        and all(one.code in _OWN_CLAIM_CODES for one in prepared.diagnostics)
    )


def _listed(paths: list[tuple[str, ...]]) -> list[str]:
    """Name what was left out, one text for each place: `place.{one,other}`."""
    places: dict[str, list[str]] = {}
    for *parents, name in paths:
        places.setdefault(".".join(parents), []).append(name)
    return [
        (f"{place}." if place else "") + (names[0] if len(names) == 1 else "{" + ",".join(names) + "}")
        for place, names in places.items()
    ]


def _drop(body: dict[str, Any], path: tuple[str, ...]) -> bool:
    *parents, name = path
    place: Any = body
    for parent in parents:
        place = place.get(parent) if isinstance(place, dict) else None
    if not isinstance(place, dict) or name not in place:
        return False
    del place[name]
    return True
