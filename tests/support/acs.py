"""An agent's side of the wire, for tests: requests that are signed as a framework signs them, sent to a Guardian."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from awr.guardian.envelope import rfc3339
from awr.guardian.guardian import Guardian
from awr.guardian.hooks import HOOKS
from awr.guardian.signature import Keys, sign, verifies
from awr.guardian.store import Store

__all__ = ["KEYS", "PAYLOADS", "SECRET", "TEXT", "Agent", "guardian_at", "hello"]

SECRET = b"a secret of tests, which is 32 bytes or more"
KEYS = Keys({"default": SECRET})

#: A text that no record may hold, wherever a payload has one.
TEXT = "WINDMILL"

Send = Callable[[bytes], bytes]


def hello(**changes: Any) -> dict[str, Any]:
    """Return a ClientHello that offers everything."""
    return {
        "acs_versions_supported": ["0.1.0"],
        "methods_implemented": [*HOOKS, "system/ping", "protocols/MCP/tools/call"],
        "transports_supported": ["http"],
        "provenance_producer": "deterministic",
        "profiles_supported": ["acs-core", "acs-audit"],
        **changes,
    }


def guardian_at(path: Path, **changes: Any) -> Guardian:
    """Return a Guardian over a database that is made if it is not there."""
    changes = {"keys": KEYS, "transports": ("http",), **changes}
    return Guardian(Store.open(path, now=0, create=True), **changes)


class Agent:
    """One session of one agent. `send` carries bytes to a Guardian and back."""

    def __init__(
        self,
        send: Send,
        *,
        keys: Keys = KEYS,
        key_id: str = "default",
        session_id: str | None = None,
        agent_id: str = "agent-of-tests",
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.send = send
        self.keys = keys
        self.key_id = key_id
        self.session_id = session_id or str(uuid.uuid4())
        self.agent_id = agent_id
        self.clock = clock

    def request(self, method: str, payload: Any, *, metadata: Any = None, **params: Any) -> dict[str, Any]:
        """Return a signed request. Further keyword arguments are members of `params`."""
        return self.signed(self.unsigned(method, payload, metadata=metadata, **params))

    def unsigned(self, method: str, payload: Any, *, metadata: Any = None, **params: Any) -> dict[str, Any]:
        """Return a request without its signature."""
        request_id = params.pop("request_id", None) or str(uuid.uuid4())
        return {
            "jsonrpc": "2.0",
            "method": method,
            "id": request_id,
            "params": {
                "acs_version": "0.1.0",
                "request_id": request_id,
                "timestamp": rfc3339(self.clock()),
                "metadata": {"agent_id": self.agent_id, "session_id": self.session_id, **(metadata or {})},
                # The examples are shared; a test may change its request.
                "payload": deepcopy(payload),
                **params,
            },
        }

    def signed(self, message: dict[str, Any]) -> dict[str, Any]:
        """Sign a request, as it is, under this agent's key."""
        return sign(message, place="params", keys=self.keys, key_id=self.key_id, session_id=self.session_id)

    def post(self, message: Any) -> Any:
        """Send any JSON value and return the answer."""
        return json.loads(self.send(json.dumps(message).encode()))

    def ask(self, method: str, payload: Any, **parts: Any) -> Any:
        """Send one signed request and return its answer, whose signature is checked."""
        answer = self.post(self.request(method, payload, **parts))
        assert self.is_signed(answer), "every answer to a signed request is signed"
        return answer

    def begin(self, **changes: Any) -> Any:
        """Shake hands."""
        return self.ask("handshake/hello", hello(**changes))

    def step(self, method: str, **parts: Any) -> Any:
        """Send a step with a payload of its kind."""
        return self.ask(method, PAYLOADS[method], **parts)

    def is_signed(self, answer: Any) -> bool:
        """Tell whether an answer carries this session's signature."""
        place = "result" if "result" in answer else "error"
        return verifies(answer, place=place, keys=self.keys, session_id=self.session_id)


def provenance(provenance_id: str, origin: str, *derived: str) -> dict[str, Any]:
    """Return a provenance object."""
    found: dict[str, Any] = {
        "provenance_id": provenance_id,
        "origin": origin,
        "source_id": f"source of {provenance_id}",
    }
    return {**found, "derived_from": list(derived)} if derived else found


def said(provenance_id: str, origin: str, *derived: str) -> dict[str, Any]:
    """Return a text with its provenance."""
    return {"type": "text", "value": f"{TEXT} in {origin}", "provenance": provenance(provenance_id, origin, *derived)}


_INTENT = {
    "raw": f"{TEXT} as an intent",
    "parsed": [f"{TEXT}.read"],
    "parser_provenance": provenance("p-intent", "user_input"),
    "scope_mode": "strict",
}
_SKILL = {"algorithm": "sha256", "value": "ab" * 32}

#: One payload for each hook, with text at every place that may hold one.
PAYLOADS: dict[str, dict[str, Any]] = {
    "steps/sessionStart": {
        "user_identity": {"name": TEXT},
        "policy_mode": "enforce",
        "intent": _INTENT,
        "platform_context": {"note": TEXT},
    },
    "steps/agentTrigger": {"trigger_type": "user_message", "trigger_source": {"text": TEXT}, "intent": _INTENT},
    "steps/turnStart": {"turn_id": "turn-1", "triggered_by": "user_message"},
    "steps/userMessage": {"content": [said("p-user", "user_input")]},
    "steps/agentResponse": {
        "content": [said("p-answer", "agent_generated", "p-user")],
        "reasoning": f"{TEXT} thought",
    },
    "steps/knowledgeRetrieval": {
        "query": {"value": f"{TEXT}?", "provenance": provenance("p-query", "agent_generated", "p-user")},
        "source": {"name": "handbook", "type": "vector_db"},
        "results": [{"value": {"deep": [TEXT]}, "score": 0.5, "provenance": provenance("p-found", "retrieved")}],
    },
    "steps/memoryContextRetrieval": {"entries": [{"value": TEXT, "provenance": provenance("p-memory", "retrieved")}]},
    "steps/memoryStore": {
        "content": {"value": TEXT, "provenance": provenance("p-store", "agent_generated", "p-found")},
        "memory_store": {"name": "notes", "scope": "user"},
        "operation": "create",
        "metadata": {"note": TEXT},
    },
    "steps/toolCallRequest": {
        "tool": {"name": "Bash", "provider": "host"},
        "arguments": {
            "command": {"value": f"echo {TEXT}", "provenance": provenance("p-arg", "agent_generated", "p-user")}
        },
        "raw_command": f"echo {TEXT}",
        "intent": {"description": TEXT, "goal": TEXT},
    },
    "steps/toolCallResult": {
        "tool": {"name": "Bash"},
        "exit_status": "success",
        "outputs": [{"value": TEXT, "provenance": provenance("p-out", "tool_output")}],
        "duration_ms": 12,
    },
    "steps/preCompact": {
        "entries_to_compact": ["8d0b6b0e-4d6b-4f7a-9d1c-1f1c7f0e2a10"],
        "triggered_by": "size_threshold",
        "estimated_input_tokens": 150000,
    },
    "steps/postCompact": {
        "summary": {
            "value": f"{TEXT} in short",
            "provenance": provenance("p-sum", "agent_generated", "p-user", "p-out"),
        },
        "entries_compacted": ["8d0b6b0e-4d6b-4f7a-9d1c-1f1c7f0e2a10"],
        "pre_compact_chain_hash": "0" * 64,
        "post_compact_chain_hash": "1" * 64,
    },
    "steps/subagentStart": {
        "subagent_session_id": "0b2f6f7e-0c1d-4e5f-8a9b-1c2d3e4f5a60",
        "parent_session_id": "5c3f1b8e-9a0d-4c2e-8f4b-2d6a7e9c1b30",
        "parent_step_id": "step",
        "intent_derivation": "inherit_full",
        "subagent_intent": _INTENT,
        "subagent_descriptor": {"agent_id": "helper", "agent_name": TEXT},
    },
    "steps/subagentStop": {
        "subagent_session_id": "0b2f6f7e-0c1d-4e5f-8a9b-1c2d3e4f5a60",
        "outcome": "completed",
        "summary": {"value": TEXT},
    },
    "steps/skillRegister": {
        "skill_id": "writing",
        "definition": {"ref": "skill:writing", "digest": _SKILL, "body": f"{TEXT} to do"},
        "declared_capabilities": [{"name": TEXT}],
        "registration_provenance": provenance("p-skill", "external"),
    },
    "steps/skillLoad": {
        "skill_id": "writing",
        "digest": _SKILL,
        "load_trigger": "user",
        "load_path": [{"skill_id": "writing"}],
    },
    "steps/skillUnload": {"skill_id": "writing", "reason": "replaced"},
    "steps/turnEnd": {"turn_id": "turn-1", "outcome": "completed", "summary": {"value": TEXT}, "step_count": 3},
    "steps/sessionEnd": {"reason": "completed", "summary": {"value": TEXT}},
}
