"""What an agent sees of the list of operations."""

from __future__ import annotations

import json

import msgspec
import pytest

from awr.operations.registry import OPERATIONS
from awr.surfaces.mcp.catalogue import (
    DOMAINS,
    HIDDEN,
    TOOLS,
    AgentTool,
    domain_of,
    listed_schema,
    manifest,
    tool_schema,
)

#: The tools of the contract that stand on an operation, with whether they only read. Changes by preview are not here.
CONTRACT = {
    "awr_query": {"awr_project_status": True, "awr_work_ready": True, "awr_work_get": True, "awr_search": True},
    "awr_context": {
        "awr_context_compile": True,
        "awr_work_prepare": True,
        "awr_work_assess": True,
        "awr_completion_prepare": True,
    },
    "awr_work": {"awr_work_transition": False, "awr_work_manage": False, "awr_work_graph": True},
    "awr_evidence": {"awr_event_append": False, "awr_evidence_record": False},
    "awr_session": {
        "awr_session_start": False,
        "awr_session_get": True,
        "awr_session_list": True,
        "awr_session_checkpoint": False,
        "awr_session_end": False,
        "awr_session_resume": False,
        "awr_session_claim": False,
    },
    "awr_continuity": {
        "awr_session_wait": False,
        "awr_session_reply": False,
        "awr_operation_get": True,
        "awr_operation_recover": False,
        "awr_source_reindex": False,
    },
    "awr_compaction": {"awr_compaction_observe": False, "awr_compaction_get": True, "awr_compaction_defer": False},
}

each = pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)


@pytest.mark.parametrize("domain", CONTRACT)
def test_every_tool_of_the_contract_is_in_its_group_and_reads_or_writes_as_it_should(domain: str) -> None:
    found = {tool.name: tool.read_only for tool in domain_of(domain)}
    assert CONTRACT[domain].items() <= found.items()


def test_an_operators_operation_has_no_tool() -> None:
    kept_back = {one.name for one in OPERATIONS if one.operator}
    assert {"doctor.repair", "journal.rebuild", "restore", "backup", "project.init"} <= kept_back
    reachable = {operation.name for tool in TOOLS.values() for operation in tool.operations}
    assert not reachable & kept_back
    assert reachable == {one.name for one in OPERATIONS if one.scope == "project" and not one.operator}


def test_every_tool_is_in_a_group_that_is_listed() -> None:
    assert {tool.domain for tool in TOOLS.values()} == set(DOMAINS)


def test_operations_that_share_a_tool_share_its_group_and_whether_it_writes() -> None:
    for tool in TOOLS.values():
        assert len({one.domain for one in tool.operations}) == 1
        assert len({one.effect == "write" for one in tool.operations}) == 1
        assert len({one.action for one in tool.operations}) == len(tool.operations)


@each
def test_a_tools_schema_is_closed_at_every_level_and_describes_every_field(tool: AgentTool) -> None:
    schema = tool_schema(tool.name)
    assert "$ref" not in json.dumps(schema)
    assert not HIDDEN & set(schema["properties"])
    assert set(schema["required"]) <= set(schema["properties"])
    for name, field in schema["properties"].items():
        assert field.get("description") or field.get("type") == "object" or "anyOf" in field, name

    def closed(value: object) -> bool:
        if isinstance(value, dict):
            here = "properties" not in value or value.get("additionalProperties") is False
            return here and all(closed(part) for part in value.values())
        return all(closed(part) for part in value) if isinstance(value, list) else True

    assert closed(schema)


@each
def test_a_write_can_be_named_and_on_a_shared_service_has_to_be(tool: AgentTool) -> None:
    names = not tool.read_only and tool.name != "awr_operation_recover"
    assert tool.identified == names
    if names:
        assert "request_id" in tool_schema(tool.name)["properties"]
        assert "request_id" not in tool_schema(tool.name)["required"]
        assert {"project", "request_id"} <= set(tool_schema(tool.name, shared=True)["required"])
    else:
        wanted = {"request_id"} if "operation" in tool.name else set()
        assert "project" in tool_schema(tool.name, shared=True)["required"]
        assert wanted == {"request_id"} & set(tool_schema(tool.name)["properties"])


def test_a_session_is_named_by_its_id_or_its_conversation() -> None:
    schema = tool_schema("awr_compaction_get")
    assert schema["anyOf"] == [{"required": ["session"]}, {"required": ["conversation"]}]


@each
def test_a_tool_that_is_listed_by_itself_has_no_alternatives_at_the_top_of_its_schema(tool: AgentTool) -> None:
    listed, whole = listed_schema(tool.name), tool_schema(tool.name)
    assert not {"anyOf", "oneOf", "allOf"} & set(listed)
    assert (listed["required"], set(listed["properties"])) == (whole["required"], set(whole["properties"]))
    if "anyOf" in whole:
        assert "conversation" in listed["properties"]["session"]["description"]


@pytest.mark.parametrize(
    ("tool", "required"),
    [
        ("awr_session_start", {"work", "conversation", "agent", "provider", "model", "expected_revision"}),
        ("awr_session_resume", {"session", "conversation", "agent", "provider", "model", "expected_revision"}),
        ("awr_session_end", {"expected_revision", "outcome"}),
        ("awr_work_transition", {"work", "action", "expected_revision", "reason"}),
        ("awr_source_reindex", {"expected_revision"}),
        ("awr_operation_recover", {"request_id", "expected_revision"}),
        ("awr_compaction_defer", {"expected_revision", "observation_event_id"}),
    ],
)
def test_what_an_agent_has_to_say_is_the_contracts(tool: str, required: set[str]) -> None:
    assert set(tool_schema(tool)["required"]) == required


def test_only_what_changes_the_projects_files_is_called_destructive() -> None:
    assert {tool.name for tool in TOOLS.values() if tool.destructive} == {
        *("awr_work_transition", "awr_work_create", "awr_work_activate", "awr_proposal_recover")
    }


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_manifest_has_every_tool_of_its_group_with_its_schema(domain: str) -> None:
    found = manifest(domain)
    assert (found["mode"], found["manifest_version"]) == ("manifest", "1")
    assert found["child_total"] == len(found["children"]) == len(domain_of(domain)) > 0
    for child in found["children"]:
        assert child["input_schema"] == tool_schema(child["name"])
        assert child["description"]
    assert msgspec.json.encode(found)
