"""The schema is made from the facts, and every hook of the standard is an action."""

from __future__ import annotations

import json

import cedarpy
import msgspec
import pytest

from awr.guardian.hooks import HOOKS
from awr.guardian.policies.facts import CallFacts, Facts, FoldFacts, StepFacts
from awr.guardian.policies.schema import (
    ACTIONS,
    WORDS,
    action_of,
    context_of,
    facts_of_action,
    schema_text,
)
from awr.guardian.policies.tables import HARMLESS


def test_cedar_takes_the_schema() -> None:
    assert "preCompact" in str(cedarpy.Schema.from_str(schema_text()))


@pytest.mark.parametrize("kind", [FoldFacts, CallFacts, StepFacts])
def test_every_fact_is_an_attribute_and_one_that_may_be_unknown_is_optional(kind: type[Facts]) -> None:
    [line] = [line for line in schema_text().splitlines() if line.startswith(f"type {kind.__name__} ")]
    for field in msgspec.structs.fields(kind):
        optional = not field.required
        assert f'"{field.name}"{"?" if optional else ""}: ' in line
        assert not optional or field.default is None


def test_every_hook_and_every_wrapped_message_has_an_action() -> None:
    assert {action_of(method) for method in HOOKS} | {"wrappedMcp"} == set(ACTIONS)
    for method in ("protocols/MCP/tools/call", "wrapped:mcp-2025-06-18/tools/call"):
        assert action_of(method) == "wrappedMcp"
    assert ACTIONS["preCompact"] is FoldFacts
    assert ACTIONS["toolCallRequest"] is ACTIONS["wrappedMcp"] is CallFacts


@pytest.mark.parametrize("action", ACTIONS)
def test_cedar_takes_the_facts_of_every_action(action: str) -> None:
    request = {
        "principal": 'Agent::"agent"',
        "action": f'Action::"{action}"',
        "resource": 'Session::"session"',
        "context": context_of(HARMLESS[ACTIONS[action]]),
    }
    permit = "permit (principal, action, resource);"
    assert cedarpy.is_authorized(request, permit, [], schema_text()).allowed


def test_an_unknown_fact_is_left_out_of_the_context() -> None:
    facts = msgspec.structs.replace(HARMLESS[FoldFacts], open_waits=None, unsaved_required_context=False)
    context = json.loads(context_of(facts))
    assert "open_waits" not in context
    assert context["unsaved_required_context"] is False
    assert context["trigger"] == {"type": "Trigger", "id": "size_threshold"}


def test_what_no_rule_reads_is_in_neither_the_schema_nor_the_context() -> None:
    only = frozenset({"entries"})
    assert json.loads(context_of(HARMLESS[FoldFacts], only=only)) == {"entries": 10}
    assert 'type FoldFacts = {"entries": Long};' in schema_text(only=only)
    assert "type CallFacts = {};" in schema_text(only=only)


def test_every_fact_has_a_description() -> None:
    for action in ACTIONS:
        assert all(fact.description.endswith(".") for fact in facts_of_action(action))
    assert all(WORDS.values())
