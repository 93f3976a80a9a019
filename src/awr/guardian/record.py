"""What one step leaves on record: its entry, what is known of it, and what is odd about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from awr.domain.lineage import Datum
from awr.guardian.entries import canonical_entry, entry_of, step_bytes, step_text
from awr.guardian.envelope import Envelope
from awr.guardian.facts import facts_of, identifier, intent_facts, summary_of
from awr.guardian.folds import about, bound
from awr.guardian.payloads import Part, PostCompact, PreCompact, SubagentStart
from awr.guardian.store import Appended, Session, Store
from awr.guardian.verdict import Verdict

__all__ = ["appended"]

SESSION_END = "steps/sessionEnd"


def appended(
    envelope: Envelope,
    params: Mapping[str, Any],
    payload: Part,
    known: tuple[Datum, ...],
    verdict: Verdict,
    *,
    store: Store,
    session: Session,
    entry_id: str,
) -> tuple[Appended, Verdict]:
    """Return what a step adds to its session, and its verdict with what the record has to say of a fold.

    `params` are those of the request as it came.
    """
    raw = envelope.params.payload
    step_id = step_bytes(envelope.params.request_id)
    depths = store.depths(session, known)
    summary = summary_of(known, step_id=step_text(step_id), depths=depths)
    turn_id = envelope.params.metadata.turn_id
    entry = entry_of(
        entry_id=entry_id,
        step_id=step_text(step_id),
        step_type=envelope.method,
        params=params,
        turn_id=identifier(turn_id) if isinstance(turn_id, str) else None,
        provenance_summary=summary,
    )
    intent, findings = _findings(envelope, payload, store=store, session=session)
    fold = None
    if isinstance(payload, PostCompact):
        fold, found = bound(payload, store=store, session=session)
        findings += found
        if "lineage_mismatch" in found:
            verdict = verdict.with_code("lineage_mismatch")
    subagent = None
    if isinstance(payload, SubagentStart):
        subagent = (payload.subagent_session_id, payload.intent_derivation)
    added = Appended(
        step_id=step_id,
        step_type=envelope.method,
        entry=canonical_entry(entry),
        facts=facts_of(envelope.method, raw),
        provenance=known,
        depths=depths,
        summary=summary,
        intent=intent,
        decision=verdict.decision,
        reason_codes=verdict.reason_codes,
        findings=findings,
        seals=envelope.method == SESSION_END,
        subagent=subagent,
        fold=fold,
        about=about(payload.entries_to_compact) if isinstance(payload, PreCompact) else None,
        verdict=msgspec.to_builtins(verdict) if _is_kept(verdict, envelope.method) else None,
    )
    return added, verdict


def _is_kept(verdict: Verdict, method: str) -> bool:
    """Tell whether the rules and facts behind a verdict are kept: about a fold, and of whatever was not allowed."""
    return verdict.decision != "allow" or method in {"steps/preCompact", "steps/postCompact"}


def _findings(
    envelope: Envelope, payload: Part, *, store: Store, session: Session
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the session's Intent when this step fixes it, and what is odd about it and changes no decision."""
    found = []
    raw = envelope.params.payload
    intent = None
    stated = raw.get("intent")
    if envelope.method in {"steps/sessionStart", "steps/agentTrigger"} and isinstance(stated, dict):
        intent = intent_facts(stated)
        if session.intent is not None and intent != session.intent:
            found.append("intent_change_ignored")
    reference = raw.get("request_id_ref")
    if (
        isinstance(reference, str)
        and envelope.method == "steps/toolCallResult"
        and store.step_type(session, step_bytes(reference)) != "steps/toolCallRequest"
    ):
        found.append("request_id_ref_unresolved")
    if isinstance(payload, SubagentStart) and payload.parent_session_id.lower() != envelope.session_id.lower():
        found.append("parent_session_differs")
    final = raw.get("final_chain_hash")
    if isinstance(final, str):
        head = session.head
        if envelope.method == "steps/subagentStop":
            child = store.session(raw["subagent_session_id"])
            head = child.head if child is not None else None
        if head is not None and final != head.hex():
            found.append("final_chain_hash_differs")
    return intent, tuple(found)
