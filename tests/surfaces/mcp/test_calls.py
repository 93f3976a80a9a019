"""One tool call: what is refused, in which order, and that reading leaves no trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from awr.project import Project
from awr.surfaces.mcp.calls import MAX_ARGUMENT_BYTES, MAX_COMPLETION_BYTES, call_tool
from awr.surfaces.mcp.catalogue import TOOLS, AgentTool, tool_schema
from tests.support.cli import tree
from tests.support.projects import begin_session, make_project, revision
from tests.support.tools import LOCAL, use

each = pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
SECRET = "ghp_" + "a1B2c3D4" * 4


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("calls") / "project")


def refused(project: Project, tool: AgentTool, arguments: dict[str, Any]) -> dict[str, Any]:
    before = revision(project)
    answer = call_tool(lambda: project, tool, arguments, caller=LOCAL)
    assert answer.value is None
    assert answer.error is not None
    assert revision(project) == before
    return answer.error


@each
def test_an_unknown_field_is_refused_and_not_repeated(untouched: Project, tool: AgentTool) -> None:
    error = refused(untouched, tool, {**sample(tool), "zqx_unknown": "zqx_value"})
    assert error["code"] == "InvalidInput"
    assert "zqx" not in json.dumps(error)


@each
def test_each_required_field_is_missed(untouched: Project, tool: AgentTool) -> None:
    for name in tool_schema(tool.name)["required"]:
        arguments = {key: value for key, value in sample(tool).items() if key != name}
        assert refused(untouched, tool, arguments)["code"] == "InvalidInput", name


@each
def test_each_field_of_a_wrong_type_is_refused(untouched: Project, tool: AgentTool) -> None:
    for name in tool_schema(tool.name)["properties"]:
        error = refused(untouched, tool, {**sample(tool), name: [[["zqx"]]]})
        assert error["code"] == "InvalidInput", name
        assert "zqx" not in json.dumps(error)


@each
def test_a_secret_in_any_text_is_refused_and_not_repeated(untouched: Project, tool: AgentTool) -> None:
    for name in tool_schema(tool.name)["properties"]:
        error = refused(untouched, tool, {**sample(tool), name: SECRET})
        assert error["code"] == "RuleViolation", name
        assert error["details"]["policy_version"] == 7
        assert SECRET not in json.dumps(error)


@each
def test_a_field_that_only_a_local_door_may_state_is_unknown(untouched: Project, tool: AgentTool) -> None:
    for name in ("client", "visible_to", "cached", "input"):
        assert refused(untouched, tool, {**sample(tool), name: "x"})["code"] == "InvalidInput"


@each
def test_arguments_of_more_than_a_mebibyte_are_refused(untouched: Project, tool: AgentTool) -> None:
    error = refused(untouched, tool, {**sample(tool), "zqx": "x" * MAX_ARGUMENT_BYTES})
    assert error["code"] == "InvalidInput"
    assert error["details"]["expected"] == f"at most {MAX_ARGUMENT_BYTES} bytes"


def test_a_completion_of_more_than_its_bound_is_refused(untouched: Project) -> None:
    tool = TOOLS["awr_work_transition"]
    arguments = {**sample(tool), "action": "complete", "completion": {"version": 1, "x": "x" * MAX_COMPLETION_BYTES}}
    assert refused(untouched, tool, arguments)["details"]["expected"] == f"at most {MAX_COMPLETION_BYTES} bytes"


def test_a_null_says_what_leaving_out_says(project: Project) -> None:
    answer = use(project, "awr_context_compile", work="parse", session=None, paths=None, budget=None, detached=True)
    assert answer.value is not None
    assert answer.value["work_context"]["token_budget"] == 5000


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("awr_project_status", {}),
        ("awr_project_status", {"view": "full"}),
        ("awr_work_ready", {}),
        ("awr_work_get", {"work": "parse"}),
        ("awr_work_graph", {}),
        ("awr_work_assess", {"work": "parse"}),
        ("awr_work_prepare", {"work": "parse", "response_view": "action"}),
        ("awr_context_compile", {"work": "parse", "detached": True}),
        ("awr_context_bootstrap", {"work": "parse"}),
        ("awr_search", {"text": "parser"}),
    ],
)
class TestReading:
    def test_a_read_leaves_no_trace_and_says_what_it_rests_on(
        self, project: Project, tool: str, arguments: dict[str, Any]
    ) -> None:
        before = tree(project.root)
        value = use(project, tool, **arguments).value
        assert tree(project.root) == before
        assert value is not None
        assert value["freshness_basis"] == "source_verified_readonly"
        assert (value["read_only"], value["source_refresh_performed"], value["project_revision"]) == (True, False, 2)
        assert value["source_issues"] == []
        assert value["source_warnings"] == 0
        snapshot = value["snapshot"]
        assert len(snapshot.pop("source_state_fingerprint")) == 64
        assert snapshot == {
            "version": 1,
            "storage": "private_memory",
            "coherent": True,
            "project_revision": 2,
            "source_refresh_revision": None,
            "source_currentness_verified": True,
        }

    def test_a_changed_file_makes_it_stale_and_changes_nothing(
        self, project: Project, tool: str, arguments: dict[str, Any]
    ) -> None:
        with (project.root / "work-ledger.yaml").open("a") as file:
            file.write("\n# a remark\n")
        before = tree(project.root)
        answer = use(project, tool, **arguments)
        assert answer.error is not None
        assert answer.error["code"] == "SourceStale"
        assert "awr source reindex" in answer.error["details"]["next_step"]
        assert tree(project.root) == before
        reindexed = use(project, "awr_source_reindex", expected_revision=2)
        assert reindexed.error is None
        value = use(project, tool, **arguments).value
        assert value is not None
        assert value["project_revision"] == 3

    def test_a_missing_file_makes_it_stale_and_changes_nothing(
        self, project: Project, tool: str, arguments: dict[str, Any]
    ) -> None:
        (project.root / "work-ledger.yaml").unlink()
        before = tree(project.root)
        answer = use(project, tool, **arguments)
        assert answer.error is not None
        assert answer.error["code"] == "SourceStale"
        assert tree(project.root) == before


def test_an_event_of_somebody_else_does_not_make_a_read_stale(project: Project) -> None:
    use(project, "awr_event_append", event_type="note.added", summary="A note", expected_revision=2)
    value = use(project, "awr_project_status").value
    assert value is not None
    assert value["project_revision"] == 3


def test_what_rests_on_the_record_alone_is_read_without_the_files(project: Project) -> None:
    session = begin_session(project)
    (project.root / "work-ledger.yaml").unlink()
    assert use(project, "awr_session_get", session=session).error is None
    assert use(project, "awr_compaction_get", session=session).error is None
    assert use(project, "awr_session_list").error is None


def test_ending_releasing_and_observing_need_no_files(project: Project) -> None:
    session = begin_session(project, claim=True)
    (project.root / "work-ledger.yaml").unlink()
    claim = use(project, "awr_session_get", session=session).body()["claims"][0]["id"]
    now = revision(project)
    released = use(
        project, "awr_session_claim", action="release", session=session, claim=claim, expected_revision=now
    )
    assert released.error is None
    ended = use(project, "awr_session_end", session=session, outcome="ended", expected_revision=now + 1)
    assert ended.error is None


def test_a_stale_revision_fails_before_the_sources_are_looked_at(project: Project) -> None:
    with (project.root / "work-ledger.yaml").open("a") as file:
        file.write("\n# a remark\n")
    answer = use(project, "awr_event_append", event_type="note.added", summary="A note", expected_revision=1)
    assert answer.error is not None
    assert answer.error["code"] == "RevisionConflict"
    assert revision(project) == 2


def test_a_source_that_changed_moves_the_revision_and_the_write_is_refused(project: Project) -> None:
    with (project.root / "work-ledger.yaml").open("a") as file:
        file.write("\n# a remark\n")
    answer = use(project, "awr_event_append", event_type="note.added", summary="A note", expected_revision=2)
    assert answer.error is not None
    assert answer.error["code"] == "RevisionConflict"
    assert revision(project) == 3


def test_a_claim_belongs_to_the_work_of_the_session_that_is_named(project: Project) -> None:
    start: dict[str, Any] = {"work": "parse", "conversation": "c", "agent": "a", "provider": "p", "model": "m"}
    use(project, "awr_session_start", expected_revision=2, **start)
    value = use(project, "awr_session_claim", action="acquire", conversation="c", expected_revision=3).value
    assert value is not None
    assert use(project, "awr_work_get", work="parse").body()["work"]["active_claims"][0]["id"] == value["claim"]["id"]


@pytest.mark.parametrize(
    ("action", "more", "code"),
    [
        ("acquire", {"claim": "x"}, "InvalidInput"),
        ("release", {}, "InvalidInput"),
        ("release", {"claim": "x", "ttl_ms": 5}, "InvalidInput"),
        ("steal", {}, "InvalidInput"),
    ],
)
def test_each_action_has_fields_of_its_own(project: Project, action: str, more: dict[str, Any], code: str) -> None:
    session = begin_session(project)
    answer = use(project, "awr_session_claim", action=action, session=session, expected_revision=3, **more)
    assert answer.error is not None
    assert answer.error["code"] == code


def test_an_uninitialized_folder_says_what_to_do_first_and_stays_empty(tmp_path: Path) -> None:
    answer = call_tool(lambda: Project.open(tmp_path), TOOLS["awr_project_status"], {}, caller=LOCAL)
    body = answer.body()
    assert (body["ok"], body["error"]["code"], body["total"]) == (False, "NotFound", None)
    assert (body["organization"], body["next_action"]) == ({"state": "not_initialized"}, "initialize_project")
    assert list(tmp_path.iterdir()) == []
    other = call_tool(lambda: Project.open(tmp_path), TOOLS["awr_work_ready"], {}, caller=LOCAL)
    assert other.body()["code"] == "NotFound"


def test_a_status_over_an_unreadable_source_says_so(project: Project) -> None:
    (project.root / "work-ledger.yaml").unlink()
    body = use(project, "awr_project_status").body()
    assert (body["organization"]["state"], body["error"]["code"]) == ("source_unreadable", "SourceStale")


@pytest.mark.parametrize("place", [".awr", ".awr/state.db"])
def test_a_link_in_the_place_of_awrs_own_files_is_refused(tmp_path: Path, place: str) -> None:
    root = make_project(tmp_path / "project").root
    moved = tmp_path / "elsewhere"
    (root / place).rename(moved)
    (root / place).symlink_to(moved)
    answer = call_tool(lambda: Project.open(root), TOOLS["awr_work_ready"], {}, caller=LOCAL)
    assert answer.body()["code"] == "RuleViolation"


def test_a_database_beyond_the_bound_of_a_copy_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awr.journal.database.PLAIN_COPY_BYTES", 4096)
    monkeypatch.setattr("awr.journal.database.COPY_BYTES", 4096)
    assert use(project, "awr_work_ready").body()["code"] == "Storage"
    assert use(project, "awr_session_list").error is None


def sample(tool: AgentTool) -> dict[str, Any]:
    """Return arguments that fit the tool's schema, whatever they mean."""
    schema = tool_schema(tool.name)
    arguments = {name: _value(schema["properties"][name]) for name in schema["required"]}
    if "anyOf" in schema:
        arguments["session"] = "0" * 26
    if tool.chooses:
        last = tool.operations[-1]
        arguments["action"] = last.action
        arguments |= {name: _value(schema["properties"][name]) for name in last.required if name not in arguments}
    return arguments


def _value(field: dict[str, Any]) -> Any:
    options = [field, *field.get("anyOf", [])]
    kind = next((one["type"] for one in options if one.get("type") not in {None, "null"}), None)
    if kind is None:
        return next(one["enum"] for one in options if "enum" in one)[0]
    if kind == "object":
        inner = next(one for one in options if one.get("type") == "object")
        return {name: _value(inner["properties"][name]) for name in inner.get("required", ())}
    if kind == "array":
        inner = next(one for one in options if one.get("type") == "array")
        return [_value(inner["items"])] * inner.get("minItems", 0)
    return {"string": "x", "integer": 1, "boolean": True, "number": 1.0}[kind]
