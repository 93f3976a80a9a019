"""What a finished compaction binds: its decision, the steps that it stands for, and the lineage of its summary.

It has happened, so nothing is denied. What is wrong with it is a finding on its entry, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from awr.chain import digest
from awr.guardian.entries import step_named
from awr.guardian.facts import identifier
from awr.guardian.payloads import PostCompact
from awr.guardian.store import Fold, Session, Store

__all__ = ["about", "bound"]


def bound(payload: PostCompact, *, store: Store, session: Session) -> tuple[Fold, tuple[str, ...]]:
    """Return what a steps/postCompact binds, and what is wrong with it, worst first.

    The lineage holds when the summary is agent_generated, every step is the session's, `derived_from` is the union of
    all provenance of these steps, and `pre_compact_chain_hash` is the session's head. `post_compact_chain_hash` is
    not looked at: its sender cannot know it.
    """
    question = store.question(session)
    steps = dict.fromkeys(map(step_named, payload.entries_compacted))
    known = store.data_of(session, filter(None, steps))
    lineage = {name for names in known.values() for name in names}
    stated = set(map(identifier, payload.summary.provenance.derived_from or ()))
    findings = []
    if question is None:
        findings.append("ungoverned_fold")
    elif question.denied:
        findings.append("deny_not_honoured")
    elif question.about is not None and question.about != about(payload.entries_compacted):
        findings.append("fold_differs")
    holds = (
        payload.summary.provenance.origin == "agent_generated"
        and len(known) == len(steps)
        and stated == lineage
        and session.head is not None
        and payload.pre_compact_chain_hash == session.head.hex()
    )
    if not holds:
        findings.append("lineage_mismatch")
    fold = Fold(
        decided_at=None if question is None else question.position,
        summary_id=identifier(payload.summary.provenance.provenance_id),
        steps=tuple(known),
    )
    return fold, tuple(findings)


def about(step_ids: Sequence[str]) -> str:
    """Return a digest of the steps that a fold is about, whatever their order and the case of their ids."""
    return digest("\n".join(sorted({step_id.lower() for step_id in step_ids})).encode())
