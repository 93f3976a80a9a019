"""The methods that ask for a decision: the type of each payload, and which dispositions its hook allows."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Literal

import msgspec

from awr.guardian import payloads
from awr.guardian.envelope import place_of
from awr.guardian.refusals import Code, Refusal

__all__ = [
    "ALL_WRAPPED",
    "HOOKS",
    "Disposition",
    "Hook",
    "agreed_on",
    "hook_of",
    "is_defined",
    "payload_schema",
    "read_payload",
]

Disposition = Literal["allow", "deny", "modify", "ask", "defer"]


class Hook(msgspec.Struct, frozen=True):
    """One method: its payload, and what may be answered (hooks.md)."""

    payload: type[payloads.Part]
    permits: frozenset[Disposition]


_ALLOW: frozenset[Disposition] = frozenset({"allow"})
_DENY: frozenset[Disposition] = frozenset({"allow", "deny"})
_MODIFY: frozenset[Disposition] = frozenset({"allow", "deny", "modify"})
_ALL: frozenset[Disposition] = frozenset({"allow", "deny", "modify", "ask", "defer"})

HOOKS: dict[str, Hook] = {
    "steps/sessionStart": Hook(payloads.SessionStart, _DENY),
    "steps/agentTrigger": Hook(payloads.AgentTrigger, _MODIFY),
    "steps/turnStart": Hook(payloads.TurnStart, _DENY),
    "steps/userMessage": Hook(payloads.UserMessage, _MODIFY),
    "steps/agentResponse": Hook(payloads.AgentResponse, _MODIFY),
    "steps/knowledgeRetrieval": Hook(payloads.KnowledgeRetrieval, _MODIFY),
    "steps/memoryContextRetrieval": Hook(payloads.MemoryContextRetrieval, _MODIFY),
    "steps/memoryStore": Hook(payloads.MemoryStore, _MODIFY),
    "steps/toolCallRequest": Hook(payloads.ToolCallRequest, _ALL),
    "steps/toolCallResult": Hook(payloads.ToolCallResult, _MODIFY),
    "steps/preCompact": Hook(payloads.PreCompact, _DENY),
    # Compaction has happened: a denial would change nothing (specification, section 6.5).
    "steps/postCompact": Hook(payloads.PostCompact, frozenset({"allow", "modify"})),
    "steps/subagentStart": Hook(payloads.SubagentStart, _DENY),
    "steps/subagentStop": Hook(payloads.SubagentStop, _ALLOW),
    "steps/skillRegister": Hook(payloads.SkillRegister, _DENY),
    "steps/skillLoad": Hook(payloads.SkillLoad, _DENY),
    "steps/skillUnload": Hook(payloads.SkillUnload, _ALLOW),
    "steps/turnEnd": Hook(payloads.TurnEnd, _ALLOW),
    "steps/sessionEnd": Hook(payloads.SessionEnd, _ALLOW),
}

#: MCP's messages, wrapped under either spelling of the namespace. A method's name is kept, so that it is a name only.
WRAPPED = Hook(payloads.WrappedMessage, _ALL)
_WRAPPED = re.compile(
    r"(protocols/MCP|wrapped:mcp-[0-9][0-9-]{0,15})/([A-Za-z][A-Za-z0-9_]{0,31}/){0,3}[A-Za-z0-9_]{1,32}"
)
#: What a client may offer for all of them.
ALL_WRAPPED = "protocols/MCP/*"

#: Namespaces and methods that the standard defines or reserves, and that are answered here by "not negotiated".
_DEFINED_ELSEWHERE = ("agbom/snapshot", "agbom/changed", "protocols/", "trace/", "wrapped:")


def hook_of(method: str) -> Hook | None:
    """Return the hook of a method that is evaluated here, or None."""
    return HOOKS.get(method) or (WRAPPED if _WRAPPED.fullmatch(method) else None)


def agreed_on(method: str, methods: Collection[str]) -> bool:
    """Tell whether a handshake's methods hold this one, by its name or as one of MCP's."""
    return method in methods or (ALL_WRAPPED in methods and method.startswith("protocols/MCP/"))


def is_defined(method: str) -> bool:
    """Tell whether the standard knows a method, evaluated here or not."""
    return hook_of(method) is not None or method.startswith(_DEFINED_ELSEWHERE)


def read_payload(hook: Hook, payload: dict[str, Any]) -> payloads.Part:
    """Return a payload as its hook has it. Raise Refusal INVALID_PARAMS naming the place, never the content."""
    try:
        return msgspec.convert(payload, hook.payload)
    except msgspec.ValidationError as error:
        raise Refusal(
            Code.INVALID_PARAMS,
            reason="invalid_payload",
            message=f"the payload breaks its schema: {place_of(error)}",
        ) from None


def payload_schema(method: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a hook's payload. Raise KeyError for another method."""
    schema = msgspec.json.schema(HOOKS[method].payload)
    root = schema.pop("$ref").rpartition("/")[2]
    definitions: dict[str, Any] = schema["$defs"]
    found = definitions.pop(root)
    rest = {"$defs": definitions} if definitions else {}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found,
        "title": f"{method} payload",
        **rest,
    }
