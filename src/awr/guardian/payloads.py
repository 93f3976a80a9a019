"""The payloads of the 19 native hooks, as the standard's schemas and prose name them.

Members that are not named here are allowed everywhere and ignored. `provenance` is optional, as in the base schemas
of ACS-Core. What a table of the standard leaves open is accepted as it comes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from awr.domain.provenance import Origin
from awr.guardian.envelope import ChainHash, Uuid

__all__ = ["PreCompact", "Provenance", "ProvenanceSummary"]

Unset = msgspec.UnsetType
Count = Annotated[int, msgspec.Meta(ge=0)]
Strings = tuple[str, ...]
SomeStrings = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a payload. Members that are not named are the future's."""


class Provenance(Part, frozen=True, kw_only=True):
    """Where a piece of data came from, said by deterministic code (specification, section 7)."""

    provenance_id: str
    origin: Origin
    source_id: str | Unset = msgspec.UNSET
    derived_from: Strings | Unset = msgspec.UNSET


class ProvenanceSummary(Part, frozen=True, kw_only=True):
    """Facts of provenance over several entries (specification, section 8.3). Every member is optional."""

    origins_seen: Annotated[tuple[Origin, ...], msgspec.Meta(extra_json_schema={"uniqueItems": True})] | Unset = (
        msgspec.UNSET
    )
    entry_count: Count | Unset = msgspec.UNSET
    entry_count_by_origin: dict[Origin, Count] | Unset = msgspec.UNSET
    earliest_step_id_by_origin: dict[Origin, str] | Unset = msgspec.UNSET
    max_lineage_depth: Count | Unset = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.origins_seen and len(set(self.origins_seen)) != len(self.origins_seen):
            raise ValueError("origins_seen names an origin twice")


class Value(Part, frozen=True, kw_only=True):
    """A piece of data with its provenance."""

    value: Any
    provenance: Provenance | Unset = msgspec.UNSET


class SummaryValue(Part, frozen=True, kw_only=True):
    """The summary of a finished turn, session or subagent."""

    value: Any = msgspec.UNSET
    provenance: Provenance | Unset = msgspec.UNSET


class Content(Part, frozen=True, kw_only=True):
    """One part of a message."""

    type: Literal["text", "image", "audio", "file"]
    value: Any
    provenance: Provenance | Unset = msgspec.UNSET


SomeContent = Annotated[tuple[Content, ...], msgspec.Meta(min_length=1)]


class Intent(Part, frozen=True, kw_only=True):
    """What the session is for (specification, section 8.4)."""

    raw: str | Unset = msgspec.UNSET
    parsed: Strings | Unset = msgspec.UNSET
    parser_provenance: Provenance | Unset = msgspec.UNSET
    scope_mode: str | Unset = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.parsed is not msgspec.UNSET:
            if self.parser_provenance is msgspec.UNSET:
                raise ValueError("parsed needs parser_provenance")
            if self.parser_provenance.origin != "user_input":
                raise ValueError("parser_provenance has another origin than user_input")


class SessionStart(Part, frozen=True, kw_only=True):
    """The root of a session's chain."""

    user_identity: Any = msgspec.UNSET
    policy_mode: str | Unset = msgspec.UNSET
    intent: Intent | Unset = msgspec.UNSET
    platform_context: Any = msgspec.UNSET


class AgentTrigger(Part, frozen=True, kw_only=True):
    """An agent is activated from outside."""

    trigger_type: Literal["user_message", "scheduled", "external_event", "a2a_inbound", "system"]
    trigger_source: Any = msgspec.UNSET
    intent: Intent | Unset = msgspec.UNSET


class TurnStart(Part, frozen=True, kw_only=True):
    """A turn begins."""

    turn_id: str
    triggered_by: Literal["user_message", "auto_continuation", "agent_loop", "subagent_return"]
    parent_turn_id: str | Unset = msgspec.UNSET


class UserMessage(Part, frozen=True, kw_only=True):
    """What a person says, before the agent reads it."""

    content: SomeContent


class AgentResponse(Part, frozen=True, kw_only=True):
    """What the agent says, before anybody reads it."""

    content: SomeContent
    reasoning: Any = msgspec.UNSET


class RetrievalSource(Part, frozen=True, kw_only=True):
    """Where knowledge is looked up."""

    name: str | Unset = msgspec.UNSET
    type: Literal["vector_db", "search_index", "knowledge_base", "web_search", "other"] | Unset = msgspec.UNSET
    version: str | Unset = msgspec.UNSET


class RetrievalResult(Part, frozen=True, kw_only=True):
    """One finding."""

    value: Any
    source_id: str | Unset = msgspec.UNSET
    score: Any = msgspec.UNSET
    provenance: Provenance | Unset = msgspec.UNSET


class KnowledgeRetrieval(Part, frozen=True, kw_only=True):
    """Knowledge from outside, before the agent reads it."""

    query: Value
    results: tuple[RetrievalResult, ...]
    source: RetrievalSource | Unset = msgspec.UNSET


class MemoryStoreName(Part, frozen=True, kw_only=True):
    """A memory, and for whom it is."""

    name: str | Unset = msgspec.UNSET
    scope: Literal["session", "user", "tenant", "global"] | Unset = msgspec.UNSET


class MemoryEntry(Part, frozen=True, kw_only=True):
    """One remembered piece. The standard's fields are not known for sure, so none is required."""

    value: Any = msgspec.UNSET
    memory_id: str | Unset = msgspec.UNSET
    provenance: Provenance | Unset = msgspec.UNSET


class MemoryContextRetrieval(Part, frozen=True, kw_only=True):
    """Memory that is read into the context. The standard's fields are not known for sure, so none is required."""

    query: SummaryValue | Unset = msgspec.UNSET
    memory_store: MemoryStoreName | Unset = msgspec.UNSET
    entries: tuple[MemoryEntry, ...] | Unset = msgspec.UNSET
    results: tuple[MemoryEntry, ...] | Unset = msgspec.UNSET


class MemoryStore(Part, frozen=True, kw_only=True):
    """Something is remembered beyond the session."""

    content: tuple[Value, ...] | Value
    memory_id: str | Unset = msgspec.UNSET
    memory_store: MemoryStoreName | Unset = msgspec.UNSET
    operation: Literal["create", "update", "delete"] | Unset = msgspec.UNSET
    metadata: Any = msgspec.UNSET


class Tool(Part, frozen=True, kw_only=True):
    """A tool by its name."""

    name: str
    version: str | Unset = msgspec.UNSET
    provider: str | Unset = msgspec.UNSET


class ToolIntent(Part, frozen=True, kw_only=True):
    """Why the agent says that it calls a tool."""

    description: Any = msgspec.UNSET
    goal: Any = msgspec.UNSET


class ToolCallRequest(Part, frozen=True, kw_only=True):
    """A tool is about to be called."""

    tool: Tool
    arguments: dict[str, Value]
    operation: str | Unset = msgspec.UNSET
    capability: str | Unset = msgspec.UNSET
    raw_command: Any = msgspec.UNSET
    intent: ToolIntent | Unset = msgspec.UNSET


class ToolCallResult(Part, frozen=True, kw_only=True):
    """A tool has answered, and the agent has not read it yet."""

    tool: Tool
    exit_status: Literal["success", "failure", "timeout", "blocked"]
    outputs: tuple[Value, ...]
    operation: str | Unset = msgspec.UNSET
    request_id_ref: Uuid | Unset = msgspec.UNSET
    duration_ms: Count | Unset = msgspec.UNSET


class PreCompact(Part, frozen=True, kw_only=True):
    """The context is about to be folded into a summary."""

    entries_to_compact: SomeStrings
    triggered_by: Literal["size_threshold", "manual", "agent_initiated", "framework_initiated"]
    pre_compact_provenance_summary: ProvenanceSummary | Unset = msgspec.UNSET
    estimated_input_tokens: Count | Unset = msgspec.UNSET
    target_summary_tokens: Count | Unset = msgspec.UNSET


class Summary(Part, frozen=True, kw_only=True):
    """What the context was folded into."""

    value: str
    provenance: Provenance


class PostCompact(Part, frozen=True, kw_only=True):
    """The context has been folded."""

    summary: Summary
    entries_compacted: SomeStrings
    pre_compact_chain_hash: ChainHash
    post_compact_chain_hash: ChainHash
    lineage_depth_after: Count | Unset = msgspec.UNSET


class SubagentDescriptor(Part, frozen=True, kw_only=True):
    """Which agent is started."""

    agent_id: str | Unset = msgspec.UNSET
    agent_name: str | Unset = msgspec.UNSET
    model_id: str | Unset = msgspec.UNSET


class SubagentStart(Part, frozen=True, kw_only=True):
    """An agent is about to be started inside the same runtime, with a session of its own."""

    subagent_session_id: Uuid
    parent_session_id: Uuid
    parent_step_id: str
    intent_derivation: Literal["inherit_full", "inherit_subset", "derived_from_parent", "fresh"]
    subagent_intent: Intent | Unset = msgspec.UNSET
    subagent_descriptor: SubagentDescriptor | Unset = msgspec.UNSET


class SubagentStop(Part, frozen=True, kw_only=True):
    """A subagent has ended."""

    subagent_session_id: Uuid
    outcome: Literal["completed", "failed", "cancelled", "timeout", "denied_at_spawn"]
    final_chain_hash: ChainHash | Unset = msgspec.UNSET
    summary: SummaryValue | Unset = msgspec.UNSET
    subagent_step_count: Count | Unset = msgspec.UNSET


class Digest(Part, frozen=True, kw_only=True):
    """What identifies an artifact."""

    algorithm: str
    value: str


class SkillDefinition(Part, frozen=True, kw_only=True):
    """A skill's artifact."""

    ref: str
    digest: Digest
    body: Any = msgspec.UNSET


class SkillRegister(Part, frozen=True, kw_only=True):
    """A skill is about to become available."""

    skill_id: str
    definition: SkillDefinition
    declared_capabilities: tuple[Any, ...]
    registration_provenance: Any
    composition: Any = msgspec.UNSET


class SkillStep(Part, frozen=True, kw_only=True):
    """One skill on the way to a load."""

    skill_id: str
    step_id: str | Unset = msgspec.UNSET


class SkillLoad(Part, frozen=True, kw_only=True):
    """A registered skill is about to become active."""

    skill_id: str
    digest: Digest
    load_trigger: Literal["user", "agent_decision", "skill_composition", "system"]
    load_path: tuple[SkillStep, ...]
    registration_ref: str | Unset = msgspec.UNSET
    parent_step_id: str | Unset = msgspec.UNSET
    digest_verified: bool | Unset = msgspec.UNSET
    declared_capabilities: tuple[Any, ...] | Unset = msgspec.UNSET


class SkillUnload(Part, frozen=True, kw_only=True):
    """A skill is no longer active."""

    skill_id: str
    reason: Literal["session_end", "explicit_unload", "replaced", "error"]
    replaced_by: str | Unset = msgspec.UNSET


class TurnEnd(Part, frozen=True, kw_only=True):
    """A turn has ended."""

    turn_id: str
    outcome: Literal["completed", "deferred", "error", "interrupted", "denied_at_start"]
    step_count: Count | Unset = msgspec.UNSET
    tool_call_count: Count | Unset = msgspec.UNSET
    summary: SummaryValue | Unset = msgspec.UNSET


class SessionEnd(Part, frozen=True, kw_only=True):
    """The session has ended, and its chain is sealed."""

    reason: Literal["completed", "cancelled", "error", "timeout", "abandoned"]
    summary: SummaryValue | Unset = msgspec.UNSET
    final_chain_hash: ChainHash | Unset = msgspec.UNSET


class Ping(Part, frozen=True, kw_only=True):
    """A look whether the Guardian answers."""

    echo: Annotated[str, msgspec.Meta(max_length=1024)] | Unset = msgspec.UNSET


class WrappedMessage(Part, frozen=True, kw_only=True):
    """A message of MCP, carried whole."""
