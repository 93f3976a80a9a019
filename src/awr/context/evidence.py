"""What has been recorded to show that work is done, and what is still to come.

Nothing that is missing here makes a context incomplete: evidence comes with the work.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.domain.evidence import Currency, currency
from awr.domain.work import WorkItem
from awr.journal.database import Database
from awr.journal.evidence import evidence_of_work

__all__ = ["EvidenceFact", "EvidenceGap", "evidence_facts", "evidence_gaps"]

GapCode = Literal[
    "evidence_not_recorded", "evidence_level_unknown", "evidence_currency_unknown", "evidence_historical"
]


class EvidenceGap(msgspec.Struct, frozen=True):
    """Something that the evidence does not show yet."""

    code: GapCode
    reference: str
    reason: str


class EvidenceFact(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of evidence. `id` is null for a report that the source names and nobody has recorded.

    `currency` is seen from the commit that the caller gave: unknown without one.
    """

    id: str | None
    revision: int
    external_key: str
    level: str
    summary: str | None
    locator: str
    currency: Currency


def evidence_facts(
    database: Database, item: WorkItem, *, work_item_id: str, source_sha: str | None
) -> tuple[EvidenceFact, ...]:
    """Return what is recorded of the work, then what its source points at and nobody has recorded."""
    recorded = [
        EvidenceFact(
            id=one.id,
            revision=one.revision,
            external_key=one.external_key,
            level=one.level,
            summary=one.summary,
            locator=one.locator,
            currency=currency(one, source_sha=source_sha),
        )
        for one in evidence_of_work(database, work_item_id)
    ]
    known = {fact.locator for fact in recorded}
    named = {reference.locator: reference for reference in item.evidence if reference.locator not in known}
    pointed_at = [
        EvidenceFact(
            id=None,
            revision=0,
            external_key=f"{item.external_key}/evidence/{locator}",
            level="unknown",
            summary=reference.summary,
            locator=locator,
            currency="unknown",
        )
        for locator, reference in named.items()
    ]
    return (*recorded, *pointed_at)


def evidence_gaps(facts: tuple[EvidenceFact, ...], item: WorkItem) -> tuple[EvidenceGap, ...]:
    """Return what the evidence leaves open."""
    if not facts and item.acceptance:
        reason = "acceptance is stated and no evidence is"
        return (EvidenceGap("evidence_not_recorded", item.external_key, reason),)
    found = []
    for fact in facts:
        if fact.level == "unknown":
            reason = "the source points at it and it is not recorded"
            found.append(EvidenceGap("evidence_level_unknown", fact.external_key, reason))
        elif fact.currency == "unknown":
            reason = "it names no commit, or none was given to compare it with"
            found.append(EvidenceGap("evidence_currency_unknown", fact.external_key, reason))
        elif fact.currency == "historical":
            found.append(EvidenceGap("evidence_historical", fact.external_key, "it was made at another commit"))
    return tuple(found)
