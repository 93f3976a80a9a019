"""What of a Guardian's work is an event of its project: decisions about compactions, what became of them, and faults.

Steps are none. Where the record lies in a file of its own there is no project, and nothing is written.
"""

from __future__ import annotations

from typing import Any

from awr.domain.lineage import Endorsement
from awr.guardian.entries import step_text
from awr.guardian.store import Appended, Session, Store
from awr.guardian.verdict import Verdict
from awr.ids import NewId
from awr.journal.journal import Writer

__all__ = ["journal_endorsement", "journal_fold"]

FAULTS = frozenset({"ungoverned_fold", "deny_not_honoured", "fold_differs", "lineage_mismatch"})


def journal_fold(
    store: Store, session: Session, added: Appended, verdict: Verdict, *, head: bytes, now: int, make_id: NewId
) -> None:
    """Record a step about a compaction as events of the project, as one revision with the step itself."""
    if store.project is None or added.step_type not in {"steps/preCompact", "steps/postCompact"}:
        return
    writer = Writer(store.database, project=store.project, now=now, make_id=make_id)
    about: dict[str, Any] = {
        "acs_session_id": session.session_id,
        "step_id": step_text(added.step_id),
        "position": session.entries + 1,
    }
    if added.fold is None:
        kept = added.verdict or {}
        names = ("policy_references", "policy_data", "cited_provenance_ids")
        facts = {name: kept[name] for name in names if name in kept}
        writer.append(
            "guardian.decided",
            {
                **about,
                "chain_hash": head.hex(),
                "decision": verdict.decision,
                "reason_codes": list(verdict.reason_codes),
                **facts,
            },
            summary=f"Guardian: a compaction was asked about, {verdict.decision}",
            importance="high" if verdict.decision == "deny" else "normal",
        )
        return
    writer.append(
        "guardian.folded",
        {
            **about,
            "chain_hash": head.hex(),
            "decided_at": added.fold.decided_at,
            "summary_id": added.fold.summary_id,
            "entries": len(added.fold.steps),
        },
        summary="Guardian: a compaction was reported",
    )
    faults = [finding for finding in added.findings if finding in FAULTS]
    if faults:
        writer.append(
            "guardian.fault",
            {**about, "faults": faults},
            summary="Guardian: " + ", ".join(faults),
            importance="high",
        )


def journal_endorsement(
    store: Store,
    session: Session,
    endorsement: Endorsement,
    *,
    number: int,
    confirmed_by: str,
    now: int,
    make_id: NewId,
) -> None:
    """Record an operator's word as an event of the project."""
    if store.project is None:
        return
    writer = Writer(store.database, project=store.project, now=now, make_id=make_id)
    writer.append(
        "guardian.endorsed",
        {
            "acs_session_id": session.session_id,
            "number": number,
            "endorsement": {
                "provenance_ids": list(endorsement.provenance_ids),
                "trust": endorsement.trust,
                "who": endorsement.who,
                "why": endorsement.why,
                "scope": endorsement.scope,
            },
            "confirmed_by": confirmed_by,
        },
        summary="Guardian: data of a session were endorsed",
        importance="high",
    )
