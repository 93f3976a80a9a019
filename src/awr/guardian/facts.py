"""What is kept of a payload: ids, counts, hashes, provenance, tool names and sizes. Never a text.

An identifier is kept as it is when it is short and looks like no secret; of any other, only its hash is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec

from awr.chain import acs_bytes, digest
from awr.domain.lineage import Datum
from awr.domain.provenance import MAX_SOURCE_ID
from awr.domain.secrets import find_secret
from awr.guardian.payloads import Provenance
from awr.guardian.refusals import Code, Refusal

__all__ = ["facts_of", "identifier", "provenance_of", "summary_of", "wrapped_tool"]

#: A longer identifier is kept as its hash. A rule of the trust map is about an identifier as it is kept.
MAX_IDENTIFIER = MAX_SOURCE_ID

#: Members of which something is kept, wherever a payload has them: identifiers and what comes from an enumeration of
#: the standard, numbers of the standard's, and lists and maps of which only the length is kept.
_IDENTIFIERS = frozenset(
    (
        *("turn_id", "parent_turn_id", "triggered_by", "trigger_type", "exit_status", "operation", "capability"),
        *("request_id_ref", "policy_mode", "memory_id", "subagent_session_id", "parent_session_id", "parent_step_id"),
        *("intent_derivation", "outcome", "final_chain_hash", "pre_compact_chain_hash", "skill_id", "load_trigger"),
        *("registration_ref", "replaced_by"),
    )
)
_NUMBERS = frozenset(
    (
        *("duration_ms", "estimated_input_tokens", "target_summary_tokens", "lineage_depth_after"),
        *("subagent_step_count", "step_count", "tool_call_count"),
    )
)
_COUNTED = frozenset(
    (
        *("content", "arguments", "outputs", "results", "entries", "entries_to_compact", "entries_compacted"),
        *("declared_capabilities", "load_path"),
    )
)
#: Members of which some members are kept, under both names.
_NAMED = {
    "tool": ("name", "version", "provider"),
    "memory_store": ("name", "scope"),
    "source": ("name", "type", "version"),
    "subagent_descriptor": ("agent_id", "model_id"),
}


@lru_cache(maxsize=4096)
def identifier(text: str) -> str:
    """Return an identifier as it may be kept."""
    if len(text) <= MAX_IDENTIFIER and find_secret(text) is None:
        return text
    return "sha256:" + digest(text.encode())


def facts_of(method: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of one payload beside its provenance. The payload has passed its schema.

    `payload_bytes` is its size as compact JSON. No hash of it is kept: of a short text, it would give the text away.
    """
    facts: dict[str, Any] = {"payload_bytes": len(msgspec.json.encode(payload))}
    counts: dict[str, int] = {}
    for name, found in payload.items():
        if name in _IDENTIFIERS and isinstance(found, str):
            facts[name] = identifier(found)
        elif name in _NUMBERS and isinstance(found, int):
            facts[name] = found
        elif name in _COUNTED and isinstance(found, list | dict):
            counts[name] = len(found)
        elif name in _NAMED and isinstance(found, dict):
            facts |= {
                f"{name}_{part}": identifier(found[part]) for part in _NAMED[name] if isinstance(found.get(part), str)
            }
        elif name in {"intent", "subagent_intent"} and isinstance(found, dict) and method != "steps/toolCallRequest":
            facts[name] = intent_facts(found)
    if counts:
        facts["counts"] = counts
    if method == "steps/sessionEnd":
        facts["reason"] = payload["reason"]
    if not method.startswith("steps/"):
        tool = wrapped_tool(payload)
        facts |= {"tool_name": tool} if tool is not None else {}
    return facts


def intent_facts(intent: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of an Intent: whether two are the same, never what they say."""
    parsed = intent.get("parsed")
    scope = intent.get("scope_mode")
    return {
        "sha256": digest(acs_bytes(parsed)) if parsed is not None else None,
        "capabilities": len(parsed) if isinstance(parsed, list) else None,
        "scope_mode": identifier(scope) if isinstance(scope, str) else None,
    }


def provenance_of(payload: Mapping[str, Any]) -> tuple[Datum, ...]:
    """Return every provenance object at a place where the standard puts one, in order, each id once.

    Raise Refusal INVALID_PARAMS when one id stands for two things.

    What stands anywhere else is data, whatever it looks like: a tool could write anything there.
    """
    found: dict[str, Datum] = {}
    for item in _provenance_objects(payload):
        known = Datum(
            provenance_id=identifier(item.provenance_id),
            origin=item.origin,
            source_id=identifier(item.source_id) if isinstance(item.source_id, str) else None,
            derived_from=tuple(map(identifier, item.derived_from or ())),
        )
        if found.setdefault(known.provenance_id, known) != known:
            raise Refusal(
                Code.INVALID_PARAMS,
                reason="provenance_conflict",
                message="two different provenance objects of the payload have one provenance_id",
            )
    return tuple(found.values())


def summary_of(known: tuple[Datum, ...], *, step_id: str, depths: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the ProvenanceSummary of one entry. A depth is left out where the lineage is not known."""
    if not known:
        return {}
    by_origin: dict[str, int] = {}
    for item in known:
        by_origin[item.origin] = by_origin.get(item.origin, 0) + 1
    summary: dict[str, Any] = {
        "origins_seen": list(by_origin),
        "entry_count": len(known),
        "entry_count_by_origin": by_origin,
        "earliest_step_id_by_origin": dict.fromkeys(by_origin, step_id),
    }
    reached = [depths[item.provenance_id] for item in known]
    if all(depth is not None for depth in reached):
        summary["max_lineage_depth"] = max(depth for depth in reached if depth is not None)
    return summary


def wrapped_tool(payload: Mapping[str, Any]) -> str | None:
    """Return the name of the tool or prompt that a message of MCP is about, as it may be kept, or None."""
    params = payload.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    return identifier(name) if isinstance(name, str) else None


#: Members in which the standard puts data with their provenance, and those that are one.
_PLACES = frozenset({"content", "results", "outputs", "entries", "query", "summary", "intent", "subagent_intent"})
_OBJECTS = frozenset({"provenance", "parser_provenance", "registration_provenance"})


def _provenance_objects(part: Any) -> Iterator[Provenance]:
    if isinstance(part, list):
        for item in part:
            yield from _provenance_objects(item)
    elif isinstance(part, dict):
        for name, item in part.items():
            if name in _OBJECTS and isinstance(item, dict):
                with suppress(msgspec.ValidationError):
                    yield msgspec.convert(item, Provenance)
            elif name == "arguments" and isinstance(item, dict):
                # Their names are the tool's own, and may be any of the names here.
                yield from _provenance_objects(list(item.values()))
            elif name in _PLACES:
                yield from _provenance_objects(item)
