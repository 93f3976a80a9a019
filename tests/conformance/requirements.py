"""What the standard asks for, profile by profile and of either party, and what is claimed of it here.

A row that is claimed is exercised by the tests that carry its mark, or it is not established. A row that is not
claimed says why, in the words of the standard's claim template.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

__all__ = ["PROFILES", "ROWS", "Cell", "Row", "covers", "marks_of"]

Party = Literal["guardian", "agent"]
PROFILES = (
    "acs-core",
    "acs-audit",
    "acs-provenance",
    "acs-trace",
    "acs-inspect",
    "acs-inspect-dynamic",
    "acs-crypto",
)


class Cell(msgspec.Struct, frozen=True):
    """What is claimed of one row for one party. Without a reason, it is claimed."""

    reason: Literal["", "not-implemented", "not-offered", "governed-elsewhere", "out-of-scope"] = ""
    why: str = ""


class Row(msgspec.Struct, frozen=True):
    """One thing that a profile asks for."""

    profile: str
    name: str
    title: str
    guardian: Cell
    agent: Cell


CLAIMED = Cell()
AGENTS = Cell("out-of-scope", "asked of the Observed Agent only")
GUARDIANS = Cell("out-of-scope", "asked of the Guardian only")

ROWS: tuple[Row, ...] = (
    Row("acs-core", "envelope", "Request and response envelope over JSON-RPC 2.0, batches", CLAIMED, CLAIMED),
    Row("acs-core", "versions", "Another minor version is understood, another major refused", CLAIMED, CLAIMED),
    Row("acs-core", "errors", "The codes of the error registry", CLAIMED, CLAIMED),
    Row("acs-core", "handshake", "`handshake/hello`: one ServerHello, before any step", CLAIMED, CLAIMED),
    Row("acs-core", "hooks", "The minimum hooks, and all 19 native ones", CLAIMED, CLAIMED),
    Row("acs-core", "compaction-hooks", "`steps/preCompact` and `steps/postCompact` (SHOULD)", CLAIMED, CLAIMED),
    Row("acs-core", "allow-and-deny", "ALLOW and DENY, with a reasoning for a denial", CLAIMED, CLAIMED),
    Row("acs-core", "modify", "MODIFY (SHOULD) of one composition, never a contradiction", CLAIMED, CLAIMED),
    Row(
        "acs-core",
        "modify-substitution",
        "MODIFY is answered by DENY `modify_unsupported` for a client that cannot apply it",
        Cell("not-offered", "no list of such clients is kept, and a policy's MODIFY is sent to any client"),
        CLAIMED,
    ),
    Row(
        "acs-core",
        "ask",
        "ASK with the details of an approver",
        Cell("not-offered", "no approver is known: `approver_types_supported` is empty"),
        CLAIMED,
    ),
    Row(
        "acs-core",
        "ask-substitution",
        "ASK is answered by DENY `approver_unavailable` where nobody can be asked, and recorded",
        CLAIMED,
        GUARDIANS,
    ),
    Row("acs-core", "defer", "DEFER with its details, bounded in a session", CLAIMED, CLAIMED),
    Row("acs-core", "chain", "Append-only ContextEntry chain, denied steps included", CLAIMED, GUARDIANS),
    Row("acs-core", "chain-head", "The head in each answer for which an entry was written", CLAIMED, CLAIMED),
    Row("acs-core", "chain-mismatch", "A head that the client states is checked (MAY)", CLAIMED, GUARDIANS),
    Row("acs-core", "sealing", "`steps/sessionEnd` seals the chain", CLAIMED, GUARDIANS),
    Row("acs-core", "intent", "Intent is fixed once, and no later step changes it", CLAIMED, GUARDIANS),
    Row("acs-core", "replay", "A request_id or a nonce is used once, across restarts", CLAIMED, CLAIMED),
    Row("acs-core", "freshness", "A request outside of the skew window is refused", CLAIMED, CLAIMED),
    Row("acs-core", "signature", "HMAC-SHA256 over the whole envelope, under the session's key", CLAIMED, CLAIMED),
    Row("acs-core", "decision-honoring", "The agent waits, and applies the decision", AGENTS, CLAIMED),
    Row("acs-core", "failure-posture", "An undecided step follows the posture, and is audited", AGENTS, CLAIMED),
    Row(
        "acs-core", "startup-posture", "An unanswered handshake follows the posture, and is audited", AGENTS, CLAIMED
    ),
    Row("acs-core", "liveness", "`system/ping`", CLAIMED, CLAIMED),
    Row("acs-core", "wrapped-mcp", "`protocols/MCP/*` is evaluated as steps are", CLAIMED, CLAIMED),
    Row("acs-audit", "request-hash", "`request_hash` on every ContextEntry", CLAIMED, GUARDIANS),
    Row("acs-audit", "timestamp", "`timestamp` on every ContextEntry (SHOULD)", CLAIMED, GUARDIANS),
    Row(
        "acs-audit",
        "provenance-summary",
        "`provenance_summary` on the ContextEntry of a step that has provenance (SHOULD)",
        CLAIMED,
        GUARDIANS,
    ),
    Row(
        "acs-provenance",
        "provenance",
        "A Provenance object on every data-bearing field",
        Cell("not-implemented", "Provenance is read and recorded, and the strict payload schemas are not enforced"),
        Cell("governed-elsewhere", "the program that embeds the client makes the payloads"),
    ),
    Row(
        "acs-trace",
        "trace",
        "A Trace event for every step and decision, as OTel or OCSF",
        Cell("not-implemented", "no Trace event is exported"),
        Cell("not-implemented", "no Trace event is exported"),
    ),
    Row(
        "acs-inspect",
        "agbom",
        "`agbom/snapshot`, serialized on request",
        Cell("not-implemented", "`agbom/*` is answered by CAPABILITY_NOT_NEGOTIATED"),
        Cell("not-implemented", "no inventory is made"),
    ),
    Row(
        "acs-inspect-dynamic",
        "agbom-changed",
        "`agbom/changed` for each change of a component",
        Cell("not-implemented", "`agbom/*` is answered by CAPABILITY_NOT_NEGOTIATED"),
        Cell("not-implemented", "no inventory is made"),
    ),
    Row(
        "acs-crypto",
        "ml-dsa",
        "Signatures by ML-DSA-65",
        Cell("not-implemented", "HMAC-SHA256 is the only algorithm"),
        Cell("not-implemented", "HMAC-SHA256 is the only algorithm"),
    ),
)

#: The rows that a requirement of the corpus belongs to.
_OF_THE_CORPUS = {
    "ACS-R-001": "signature",
    "ACS-R-002": "replay",
    "ACS-R-003": "freshness",
    "ACS-R-004": "decision-honoring",
    "ACS-R-005": "failure-posture",
    "ACS-R-006": "chain-head",
    "ACS-R-016": "request-hash",
    "ACS-R-017": "versions",
    "ACS-R-018": "ask-substitution",
    "ACS-R-019": "versions",
    "ACS-R-020": "signature",
    "ACS-R-021": "chain-head",
    "ACS-R-023": "startup-posture",
    "ACS-R-024": "startup-posture",
    "ACS-R-025": "startup-posture",
    "ACS-R-026": "signature",
    "ACS-R-027": "signature",
    "ACS-R-028": "signature",
    "ACS-R-029": "signature",
    "ACS-R-031": "signature",
    "ACS-R-032": "signature",
    "ACS-R-033": "chain",
    "ACS-R-034": "chain",
    "ACS-R-035": "modify",
    "ACS-R-036": "modify-substitution",
    "ACS-R-037": "modify-substitution",
    "ACS-R-038": "modify-substitution",
    "ACS-R-045": "failure-posture",
    "ACS-R-048": "modify-substitution",
    "ACS-R-057": "envelope",
}


def covers(name: str, *, party: Party = "guardian") -> pytest.MarkDecorator:
    """Return the mark of a test that stands behind a row. Raise KeyError for a row that is not claimed."""
    row = {row.name: row for row in ROWS}[name]
    if getattr(row, party).reason:
        raise KeyError(f"{name} is not claimed of the {party}")
    return pytest.mark.requirement(name, party=party)


def marks_of(requirements: tuple[str, ...], *, party: Party) -> list[pytest.MarkDecorator]:
    """Return the marks of a measured member of the corpus."""
    names = dict.fromkeys(_OF_THE_CORPUS[requirement] for requirement in requirements)
    return [covers(name, party=party) for name in names]
