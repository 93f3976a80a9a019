"""What a policy is told: the joined facts of a question, never the entries one by one.

The descriptions here are the only ones: the schema that policies are checked against and the reference page are made
from these types. A fact that may be absent is unknown when it is, and never a guess.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.domain.provenance import Origin

__all__ = [
    "CallFacts",
    "Facts",
    "FoldFacts",
    "StepFacts",
    "SummaryMember",
    "Trigger",
    "Trust",
]

Trigger = Literal["size_threshold", "manual", "agent_initiated", "framework_initiated"]
Trust = Literal["trusted", "unknown", "untrusted"]
SummaryMember = Literal[
    "origins_seen", "entry_count", "entry_count_by_origin", "earliest_step_id_by_origin", "max_lineage_depth"
]


def _count(text: str) -> msgspec.Meta:
    # A number of Cedar's has 64 bits.
    return msgspec.Meta(ge=0, le=2**63 - 1, description=text)


def _told(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts of one question."""


class StepFacts(Facts, frozen=True, kw_only=True):
    """What is known at any step that is neither a fold nor a call."""

    entries_before: Annotated[int, _count("Entries of the session before this step.")]
    session_untrusted_since_grounding: Annotated[
        int, _count("Untrusted entries of the session since it was last re-grounded.")
    ]


class CallFacts(Facts, frozen=True, kw_only=True):
    """What is known when a tool is about to be called, natively or in a wrapped message of MCP."""

    tool: Annotated[str, _told("The tool's name; of a wrapped message that names none, its method.")]
    argument_trust: Annotated[Trust, _told("The lowest trust of any argument.")]
    untrusted_arguments: Annotated[int, _count("Arguments that are untrusted.")]
    session_untrusted_since_grounding: Annotated[
        int, _count("Untrusted entries of the session since it was last re-grounded.")
    ]


class FoldFacts(Facts, frozen=True, kw_only=True):
    """What is known of a fold before it happens: the region's labels joined, and its counts."""

    trigger: Annotated[Trigger, _told("What set the compaction off.")]
    entries: Annotated[int, _count("Entries that would be folded.")]
    untrusted_entries: Annotated[int, _count("How many of them are untrusted.")]
    unknown_entries: Annotated[int, _count("How many of them are of unknown trust.")]
    untrusted_since_grounding: Annotated[
        int, _count("How many of the untrusted ones came after the session was last re-grounded.")
    ]
    restricted_readers: Annotated[bool, _told("Whether something among them may not be read by everybody.")]
    origins: Annotated[frozenset[Origin], _told("The origins of what would be folded.")]
    max_lineage_depth: (
        Annotated[
            int, _count("How many derivations lie under the most derived of it; unknown where a lineage has gaps.")
        ]
        | None
    ) = None
    unknown_steps: Annotated[int, _count("Ids in the question that name no step of any session.")]
    foreign_steps: Annotated[int, _count("Ids in the question that name a step of another session.")]
    folded_steps: Annotated[int, _count("Ids in the question that name a step which was folded before.")]
    summary_disagreements: Annotated[
        frozenset[SummaryMember],
        _told("Members of the client's own summary of the region that are not what the Guardian finds."),
    ]
    denials_of_boundary: Annotated[int, _count("How often this boundary has been denied before.")]
    estimated_input_tokens: (
        Annotated[int, _count("The client's estimate of what would be folded, in tokens; unknown if it gives none.")]
        | None
    ) = None
    target_summary_tokens: (
        Annotated[int, _count("How long the client wants the summary to be, in tokens; unknown if it does not say.")]
        | None
    ) = None
    occupancy_percent: (
        Annotated[int, _count("How full the context window is, in whole percent; unknown where no window is known.")]
        | None
    ) = None
    open_waits: Annotated[int, _count("Waits of the session that are open; unknown without a project.")] | None = None
    uncertain_executions: (
        Annotated[int, _count("Executions outside of AWR whose outcome nobody knows; unknown without a project.")]
        | None
    ) = None
    pending_tool_calls: (
        Annotated[int, _count("Tool calls without a result; unknown where the host does not tell.")] | None
    ) = None
    unsaved_required_context: (
        Annotated[bool, _told("Whether required context has no fresh checkpoint; unknown without a project.")] | None
    ) = None
