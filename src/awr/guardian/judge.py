"""The judge: the facts of a question out of the Guardian's own record, given to policies, and what they answer.

What a client says of a region is a hint: the record decides, and where they disagree it is said.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import nsmallest
from operator import attrgetter
from typing import Any

import msgspec

from awr.domain.provenance import TrustMap
from awr.guardian.hooks import hook_of
from awr.guardian.labels import Region, SessionLabels
from awr.guardian.payloads import PreCompact, ToolCallRequest
from awr.guardian.policies.engine import CedarPolicy, Judgement
from awr.guardian.policies.facts import CallFacts, Facts, FoldFacts, StepFacts
from awr.guardian.policies.schema import action_of
from awr.guardian.store import Session, Store
from awr.guardian.verdict import Step, Verdict

__all__ = ["Judge"]

#: Sessions whose labels are kept in memory.
KEPT_SESSIONS = 64
#: Ids that one verdict cites at the most; the record has the rest.
CITED = 32


class Judge:
    """Decides by packs of policies over the labels of a session. It is one Guardian's, like the store it reads."""

    requires_provenance = False

    def __init__(self, policy: CedarPolicy, store: Store, *, trust_map: TrustMap) -> None:
        self.name = "+".join(pack.id for pack in policy.packs)
        self._policy = policy
        self._store = store
        self._trust_map = trust_map
        self._sessions: OrderedDict[int, SessionLabels] = OrderedDict()

    def decide(self, step: Step) -> Verdict:
        """Return the verdict of the packs. A hook without a denial is allowed, for nothing could be stopped."""
        hook = hook_of(step.method)
        if hook is None or "deny" not in hook.permits:
            return Verdict(decision="allow")
        labels = self._labels(step.session)
        if isinstance(step.payload, PreCompact):
            return self._fold(step, step.payload, labels)
        judgement = self._policy.judge(action_of(step.method), self._facts(step, labels))
        return _verdict(judgement, step.method, {})

    def _fold(self, step: Step, payload: PreCompact, labels: SessionLabels) -> Verdict:
        region = labels.region(payload.entries_to_compact)
        foreign = sum(self._store.is_known(step_id) for step_id in region.unknown_steps)
        disagreements: tuple[str, ...] = ()
        if payload.pre_compact_provenance_summary is not msgspec.UNSET:
            stated = msgspec.to_builtins(payload.pre_compact_provenance_summary)
            disagreements = labels.disagreements(stated, payload.entries_to_compact)
        facts = FoldFacts(
            trigger=payload.triggered_by,
            entries=region.entries,
            untrusted_entries=len(region.untrusted),
            unknown_entries=region.unknown_entries,
            untrusted_since_grounding=region.untrusted_since_grounding,
            restricted_readers=region.label.readers is not None,
            origins=region.origins,
            max_lineage_depth=region.max_depth,
            unknown_steps=len(region.unknown_steps) - foreign,
            foreign_steps=foreign,
            folded_steps=region.folded_steps,
            summary_disagreements=frozenset(disagreements),  # type: ignore[arg-type]
            denials_of_boundary=labels.denials,
            estimated_input_tokens=_number(payload.estimated_input_tokens),
            target_summary_tokens=_number(payload.target_summary_tokens),
        )
        judgement = self._policy.judge("preCompact", facts)
        verdict = _verdict(judgement, step.method, _policy_data(region, facts))
        if not judgement.allowed:
            ids = {datum.provenance_id for carried in region.untrusted for datum in carried.data}
            verdict = msgspec.structs.replace(verdict, cited_provenance_ids=tuple(nsmallest(CITED, ids)))
        return verdict.with_code("provenance_summary_mismatch") if disagreements else verdict

    def _facts(self, step: Step, labels: SessionLabels) -> Facts:
        since = labels.untrusted_since_grounding
        if isinstance(step.payload, ToolCallRequest) or not step.method.startswith("steps/"):
            label, untrusted = labels.call_label(step.known)
            tool = step.payload.tool.name if isinstance(step.payload, ToolCallRequest) else step.tool
            return CallFacts(
                tool=tool or step.method,
                argument_trust=label.trust,
                untrusted_arguments=untrusted,
                session_untrusted_since_grounding=since,
            )
        return StepFacts(entries_before=step.session.entries, session_untrusted_since_grounding=since)

    def _labels(self, session: Session) -> SessionLabels:
        found = self._sessions.pop(session.id, None)
        if found is None or not found.is_of(self._store, session):
            found = SessionLabels(self._trust_map, strict=self._policy.grounding == "endorsement")
        self._sessions[session.id] = found
        if len(self._sessions) > KEPT_SESSIONS:
            self._sessions.popitem(last=False)
        found.catch_up(self._store, session)
        return found


def _verdict(judgement: Judgement, method: str, policy_data: dict[str, Any]) -> Verdict:
    if judgement.allowed:
        return Verdict(decision="allow", policy_references=judgement.policy_references, policy_data=policy_data)
    what = "This fold is denied" if method == "steps/preCompact" else "This step is denied"
    lifts = " ".join(f"({number}) {text}" for number, text in enumerate(judgement.lifts, start=1))
    return Verdict(
        decision="deny",
        reasoning=f"{what}: {', '.join(judgement.reason_codes)}. What would lift it: {lifts}",
        reason_codes=judgement.reason_codes,
        policy_references=judgement.policy_references,
        policy_data=policy_data,
    )


def _policy_data(region: Region, facts: FoldFacts) -> dict[str, Any]:
    earliest = min(region.untrusted, key=attrgetter("position"), default=None)
    aarm: dict[str, Any] = {
        "untrusted_entries": facts.untrusted_entries,
        "untrusted_since_grounding": facts.untrusted_since_grounding,
        "denials_of_boundary": facts.denials_of_boundary,
    }
    if earliest is not None:
        aarm["earliest_untrusted_step_id"] = earliest.step_id
    readers = region.label.readers
    fides: dict[str, Any] = {"integrity": region.label.trust}
    if readers is not None:
        fides["readers"] = list(readers)
    return {"aarm": aarm, "fides": fides}


def _number(value: int | msgspec.UnsetType) -> int | None:
    return value if isinstance(value, int) else None
