"""Finding out what became of a write whose answer is lost, from what AWR knows now, and going on from there."""

from __future__ import annotations

from typing import Any

from awr.chain import digest, journal_bytes
from awr.client.state import Inspected, Pending, State
from awr.client.turn import Turn, check, failure, part
from awr.domain.secrets import refuse_secrets
from awr.domain.text import bounded_text
from awr.errors import WorkflowRefused

__all__ = ["inspected", "reconciled"]

MAX_REASON_BYTES = 4096
#: What may move in an answer although nothing that it is asked for has changed.
_ABOUT_THE_ANSWER = frozenset(
    {
        "ok",
        "project_revision",
        "read_only",
        "freshness_basis",
        "snapshot",
        "source_issues",
        "source_refresh_performed",
        "source_warnings",
    }
)
_LABELS = {"agent": "agent_id", "provider": "provider", "model": "model"}


def inspected(turn: Turn, *, session: str | None, work: str | None) -> dict[str, Any]:
    """Look, write nothing at AWR, and remember what was seen so that a reconciliation can name it."""
    state = turn.state
    session, work = _named(state, session=session, work=work)
    facts, revision = _facts(turn, session=session, work=work)
    sha256 = _sha256(state, facts)
    turn.save(inspection=Inspected(sha256=sha256, session=session, work=work))
    return {
        "ok": True,
        "inspection_sha256": sha256,
        "project_revision": revision,
        "phase": state.phase,
        "session": session,
        "work": work,
        "checkpoint": state.checkpoint,
        "pending": _shown(state.pending),
        "facts": facts,
    }


def reconciled(
    turn: Turn, *, inspection_sha256: str, reason: str, session: str | None, work: str | None
) -> dict[str, Any]:
    """Put a pending write behind us by what AWR knows. Nothing is repeated and nothing is written at AWR.

    Raise WorkflowRefused without a pending write, for another inspection than the last, or when what AWR knows has
    moved since.
    """
    bounded_text("reason", reason, limit=MAX_REASON_BYTES)
    refuse_secrets(reason, what="the reason")
    state = turn.state
    if state.pending is None:
        raise WorkflowRefused("no write is pending", next_step="go on; there is nothing to reconcile")
    session, work = _named(state, session=session, work=work)
    seen = state.inspection
    if seen is None or (seen.sha256, seen.session, seen.work) != (inspection_sha256, session, work):
        raise WorkflowRefused(
            "this is not the inspection that was made last",
            got="no inspection" if seen is None else "another hash, session or work",
            expected="the inspection_sha256 of the last inspection, of the same session and work",
            next_step="inspect, judge what the facts say, then reconcile with its hash",
        )
    facts, revision = _facts(turn, session=session, work=work)
    if _sha256(state, facts) != inspection_sha256:
        raise WorkflowRefused(
            "what AWR knows has moved since the inspection",
            got="other facts",
            expected="the facts that were inspected",
            next_step="make sure that the lost call has ended, then inspect again",
        )
    changes = _concluded(state, state.pending, facts, session=session, work=work)
    entry = turn.entry(
        state.pending,
        outcome="reconciled",
        revision=revision,
        reconciliation={"inspection_sha256": inspection_sha256, "reason": reason},
    )
    turn.save(
        pending=None,
        inspection=None,
        context=None,
        history=(*state.history, entry),
        last_revision=revision,
        **changes,
    )
    return {
        "ok": True,
        "reconciled": entry.id,
        "operation": entry.operation,
        "phase": turn.state.phase,
        "session": turn.state.session,
        "work": turn.state.work,
        "project_revision": revision,
    }


def _named(state: State, *, session: str | None, work: str | None) -> tuple[str | None, str | None]:
    """Return the session and work that are meant; a workflow that has its own looks at no others."""
    # A lost beginning was for one work item, whatever it came to.
    own_work = state.work or (state.pending.args.get("work") if state.pending else None)
    for given, own in ((session, state.session), (work, own_work)):
        if given is not None and own is not None and given != own:
            raise WorkflowRefused(
                "the workflow has another session or other work",
                got="another one",
                expected="its own, or none named",
                next_step="leave session and work out; adopt another session with a state file of its own",
            )
    return session or state.session, work or own_work


def _facts(turn: Turn, *, session: str | None, work: str | None) -> tuple[dict[str, Any], int]:
    """Ask what bears on the pending write. Return the facts, and the newest revision that was seen."""
    pending = turn.state.pending
    operation = pending.operation if pending else None
    questions: dict[str, tuple[str, dict[str, Any]]] = {}
    if session is None or operation == "session.start":
        questions["sessions"] = ("session.list", {"active": True, "limit": 100})
    if session is not None:
        questions["session"] = ("session.show", {"session": session})
    if work is not None:
        questions["work"] = ("work.show", {"work": work})
    if pending is not None and operation == "evidence.add":
        questions["evidence"] = ("evidence.show", {"evidence": pending.args["external_key"]})
    if operation in {"compaction.observe", "compaction.defer"}:
        questions["compaction"] = ("compaction.inspect", {"session": session, "include_observation": True})
    if operation == "work.manage":
        questions["management"] = ("work.assess", {"work": work})
    facts: dict[str, Any] = {}
    revision = turn.state.last_revision
    for name, (asked, arguments) in questions.items():
        check(asked, arguments)
        answer, receipts = turn.desk.ask(asked, arguments)
        if not answer.known:
            raise failure(asked, answer, receipts)
        if answer.ok and answer.value is not None:
            revision = max(revision, part(answer.value, "project_revision", kind=int))
            facts[name] = {key: value for key, value in answer.value.items() if key not in _ABOUT_THE_ANSWER}
        else:
            facts[name] = {"problem": answer.report["code"] if answer.report else "CommandFailed"}
    if pending is not None and operation == "session.start" and "problem" not in facts["sessions"]:
        facts["sessions"] = {"candidates": _candidates(facts["sessions"], pending)}
    return facts, revision


def _candidates(listed: dict[str, Any], pending: Pending) -> list[dict[str, Any]]:
    """Return the active sessions that the lost start may have made, by its labels."""
    found = part(listed, "sessions", kind=list)
    return [one for one in found if _has_labels(one, pending)]


def _has_labels(session: dict[str, Any], pending: Pending) -> bool:
    return all(session.get(field) == pending.args[name] for name, field in _LABELS.items())


def _concluded(
    state: State, pending: Pending, facts: dict[str, Any], *, session: str | None, work: str | None
) -> dict[str, Any]:
    """Return what the facts say of this workflow. Raise WorkflowRefused for a session that is not its own."""
    if session is None:
        return {}
    record = part(facts["session"], "session", kind=dict)
    active = record.get("status") == "active"
    if state.session is None:
        item = part(facts.get("work", {}), "work", kind=dict)
        if not active or not _has_labels(record, pending) or record.get("work_item_id") != item.get("id"):
            raise WorkflowRefused(
                "this is not the session that the lost call was to begin",
                got="a session that is not active, or of other labels or work",
                expected="an active session with the agent, provider, model and work of the lost call",
                next_step="inspect without a session to see the candidates; reconcile without one if there is none",
            )
    phase = "ended"
    if active:
        item = facts.get("work", {}).get("work", {})
        completed = pending.operation == "transition.complete" and item.get("status") == "completed"
        phase = "work_completed" if completed or state.phase == "work_completed" else "active"
    checkpoint = record.get("last_checkpoint_id")
    return {"session": session, "work": work, "phase": phase, "checkpoint": checkpoint or state.checkpoint}


def _shown(pending: Pending | None) -> dict[str, Any] | None:
    if pending is None:
        return None
    return {
        "id": pending.id,
        "operation": pending.operation,
        "args": pending.args,
        "outcome": pending.outcome,
        "receipts": pending.receipts,
    }


def _sha256(state: State, facts: dict[str, Any]) -> str:
    return digest(journal_bytes({"pending": state.pending.id if state.pending else None, "facts": facts}))
