"""Naming a session by its id or by its conversation: what the schema says, and what is let through."""

from __future__ import annotations

from pathlib import Path

import pytest

from awr.project import Project
from awr.surfaces.mcp.calls import call_tool
from awr.surfaces.mcp.catalogue import TOOLS, tool_schema
from awr.surfaces.mcp.ownership import Caller
from tests.support.projects import make_project, revision

LOCAL = Caller(client="stdio", authenticated=False)
EITHER = [{"required": ["session"]}, {"required": ["conversation"]}]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path / "project")
    labels = {"agent": "a", "provider": "p", "model": "m", "work": "parse", "conversation": "c"}
    started = call_tool(
        lambda: made, TOOLS["awr_session_start"], {**labels, "expected_revision": revision(made)}, caller=LOCAL
    )
    assert started.error is None
    return made


@pytest.mark.parametrize("tool", ["awr_session_get", "awr_session_waits"])
def test_a_session_is_found_by_its_conversation_alone(project: Project, tool: str) -> None:
    assert tool_schema(tool)["anyOf"] == EITHER
    found = call_tool(lambda: project, TOOLS[tool], {"conversation": "c"}, caller=LOCAL)
    assert found.error is None


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("awr_session_checkpoint", {}),
        ("awr_session_wait", {"question": "Ship it?"}),
    ],
)
def test_a_session_is_written_to_by_its_conversation_alone(project: Project, tool: str, more: dict[str, str]) -> None:
    assert tool_schema(tool)["anyOf"] == EITHER
    saved = {"context_hash": "ab" * 32, "digest": "Half done", "next_action": "Go on", "conversation": "c"}
    stated = {**saved, **more, "expected_revision": revision(project)}
    assert call_tool(lambda: project, TOOLS[tool], stated, caller=LOCAL).error is None


def test_a_session_that_is_resumed_is_named_beside_the_new_conversation(project: Project) -> None:
    schema = tool_schema("awr_session_resume")
    assert {"session", "conversation"} <= set(schema["required"])
    assert "anyOf" not in schema
    stated = {"agent": "a", "provider": "p", "model": "m", "conversation": "d", "expected_revision": 1}
    answer = call_tool(lambda: project, TOOLS["awr_session_resume"], stated, caller=LOCAL)
    assert answer.error is not None
    assert answer.error["code"] == "InvalidInput"
