"""Three clients and two projects, over every tool: each sees its own, and nothing crosses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from awr.surfaces.mcp.catalogue import TOOLS, tool_schema
from tests.support.owning import ARGUMENTS, CONVERSATION, Owned, arguments_for, own, revision_of
from tests.support.service import Agent, Reply
from tests.support.team import GRANTS, Team

PLACES = [("ada", "alpha"), ("ada", "beta"), ("bob", "alpha")]
READS = sorted(name for name, tool in TOOLS.items() if tool.read_only)
WRITES = sorted(name for name, tool in TOOLS.items() if not tool.read_only)

#: Fields that name a record of a session, with the record of a client that stands there.
NAMING = {
    "session": "session",
    "to_session": "session",
    "checkpoint": "checkpoint",
    "execution": "execution",
    "proposal": "proposal",
    "operation_key": "operation_key",
}


@pytest.fixture(scope="module")
def agents(team: Team) -> Iterator[dict[str, Agent]]:
    with ExitStack() as stack:
        yield {client: stack.enter_context(team.agent(client)) for client in GRANTS}


@pytest.fixture(scope="module")
def owned(agents: dict[str, Agent]) -> dict[tuple[str, str], Owned]:
    return {(client, project): own(agents[client], project) for client, project in PLACES}


def schema(tool: str) -> dict[str, Any]:
    return tool_schema(tool, shared=True)


def arguments(tool: str, agent: Agent, record: Owned, **changes: Any) -> dict[str, Any]:
    """Return arguments that a client states, made from records that may be another's."""
    project = changes.get("project", record.project)
    return {
        **arguments_for(tool, record, revision=revision_of(agent, project), schema=schema(tool)),
        **changes,
    }


def revision(team: Team, project: str) -> int:
    with team.projects[project].journal.read() as reader:
        return reader.project_revision


def test_there_are_arguments_for_every_tool() -> None:
    assert ARGUMENTS.keys() == TOOLS.keys()


def test_each_client_sees_the_projects_it_is_granted_and_no_root(team: Team, agents: dict[str, Agent]) -> None:
    shown = {client: agents[client].call("awr_projects_list") for client in GRANTS}
    access = {
        client: {one["key"]: one["access"] for one in reply.value()["projects"]} for client, reply in shown.items()
    }
    assert access == {
        "ada": {"alpha": "write", "beta": "write"},
        "bob": {"alpha": "write", "beta": "read"},
        "cyd": {"alpha": "read"},
    }
    for client, reply in shown.items():
        assert reply.value().keys() == {"ok", "read_only", "client", "projects", "selection"}
        assert reply.value()["client"] == client
        assert str(team.projects["alpha"].root.parent) not in reply.content.decode()


@pytest.mark.parametrize("extra", [{"project": "alpha"}, {"x": None}])
def test_listing_projects_takes_no_argument(agents: dict[str, Agent], extra: dict[str, Any]) -> None:
    assert agents["ada"].call("awr_projects_list", **extra).rpc_error()["code"] == -32602


# Access to projects


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_a_call_without_a_project_is_invalid(agents: dict[str, Agent], tool: str) -> None:
    for given in ({}, {"project": None}, {"project": 5}, {"project": ["alpha"]}):
        agents["ada"].call(tool, **given).error("InvalidInput")


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_every_project_that_may_not_be_used_is_refused_in_the_same_bytes(
    team: Team, agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str
) -> None:
    record = owned["ada", "alpha"]
    stated = arguments_for(tool, record, revision=1, schema=schema(tool))
    root = str(team.projects["alpha"].root)
    before = revision(team, "alpha")
    keys = ["beta", "gamma", root, "../alpha", "ALPHA", "alpha ", "", "alpha/../alpha", "x" * 1000]
    refused = [agents["cyd"].call(tool, **{**stated, "project": key}) for key in keys]
    if not TOOLS[tool].read_only:
        # A project that may only be read is refused to a write as if it were not there.
        refused += [agents["cyd"].call(tool, **stated), agents["bob"].call(tool, **{**stated, "project": "beta"})]
    assert {reply.content for reply in refused} == {refused[0].content}
    assert refused[0].error("RuleViolation")["message"] == "project access denied"
    assert revision(team, "alpha") == before


@pytest.mark.parametrize("tool", WRITES)
def test_a_read_grant_is_refused_before_anything_else_is_looked_at(agents: dict[str, Agent], tool: str) -> None:
    assert agents["cyd"].call(tool, project="alpha", nonsense=1).error("RuleViolation")


@pytest.mark.parametrize(
    "tool", [name for name in READS if "session" not in schema(name)["properties"] and "client" not in name]
)
def test_a_read_grant_is_enough_for_a_read(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str
) -> None:
    record = owned["ada", "alpha"]
    body = agents["cyd"].call(tool, **arguments(tool, agents["cyd"], record)).result()
    assert body.get("message") != "project access denied"


def test_the_tools_of_a_project_are_shown_to_those_who_may_read_it(agents: dict[str, Agent]) -> None:
    assert agents["cyd"].call("awr_query", project="alpha").value()["mode"] == "manifest"
    refused = [agents["cyd"].call("awr_query", project=key) for key in ("beta", "gamma", "/")]
    assert {reply.content for reply in refused} == {refused[0].content}
    error = refused[0].rpc_error()
    assert (error["code"], error["data"]["code"]) == (-32603, "RuleViolation")
    assert agents["cyd"].call("awr_query").rpc_error()["code"] == -32602


def test_a_call_through_a_group_is_checked_like_the_call_itself(agents: dict[str, Agent]) -> None:
    inner = {"child_tool": "awr_work_ready", "arguments": {}}
    assert agents["cyd"].call("awr_query", project="alpha", **inner).value()["ok"] is True
    agents["cyd"].call("awr_query", project="beta", **inner).error("RuleViolation")
    # The outer project is the one that counts, whatever stands inside.
    smuggled = {"child_tool": "awr_work_ready", "arguments": {"project": "alpha"}}
    agents["cyd"].call("awr_query", project="beta", **smuggled).error("RuleViolation")


# Every tool for its own client


@pytest.mark.parametrize("tool", [name for name in sorted(TOOLS) if name != "awr_session_end"])
@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_every_tool_lets_its_own_client_through(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str, place: tuple[str, str]
) -> None:
    agent, record = agents[place[0]], owned[place]
    body = agent.call(tool, **arguments(tool, agent, record)).result()
    report = body.get("error") or (body if "code" in body else {})
    assert report.get("code") not in {"InvalidInput", "RuleViolation", "RevisionConflict", "Storage", "Io"}, report
    if TOOLS[tool].identified:
        assert body.get("operation") or report, body


@pytest.mark.parametrize("tool", [name for name in WRITES if TOOLS[name].identified])
def test_a_write_without_a_request_id_is_invalid_and_changes_nothing(
    team: Team, agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str
) -> None:
    stated = arguments(tool, agents["ada"], owned["ada", "alpha"])
    before = revision(team, "alpha")
    del stated["request_id"]
    for missing in ({}, {"request_id": None}, {"request_id": ""}, {"request_id": 5}, {"request_id": "x" * 257}):
        agents["ada"].call(tool, **stated, **missing).error("InvalidInput")
    assert revision(team, "alpha") == before


@pytest.mark.parametrize("tool", READS)
def test_a_read_takes_no_request_id_that_it_has_no_use_for(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str
) -> None:
    if "request_id" in schema(tool)["properties"]:
        return
    agents["ada"].call(tool, **arguments(tool, agents["ada"], owned["ada", "alpha"]), request_id="r").error(
        "InvalidInput"
    )


@pytest.mark.parametrize("tool", sorted(TOOLS))
@pytest.mark.parametrize("hidden", ["client", "visible_to", "cached", "input"])
def test_nobody_says_who_he_is_in_the_arguments(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str, hidden: str
) -> None:
    stated = {**arguments_for(tool, owned["ada", "alpha"], revision=1, schema=schema(tool)), hidden: "ada"}
    agents["bob"].call(tool, **stated).error("InvalidInput")


# Records of other clients and of other projects


def named_records() -> list[tuple[str, str]]:
    return [(tool, field) for tool in sorted(TOOLS) for field in NAMING if field in schema(tool)["properties"]]


@pytest.mark.parametrize(("tool", "field"), named_records())
def test_what_belongs_to_another_clients_session_is_refused(
    team: Team, agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str, field: str
) -> None:
    hers, his = owned["ada", "alpha"], owned["bob", "alpha"]
    stated = arguments(tool, agents["bob"], his, **{field: getattr(hers, NAMING[field])})
    before = revision(team, "alpha")
    reply = agents["bob"].call(tool, **stated)
    reply.error("RuleViolation")
    assert revision(team, "alpha") == before
    assert leaked(reply, hers, stated) == []


@pytest.mark.parametrize("tool", [tool for tool, field in named_records() if field == "session"])
def test_a_session_of_another_project_is_not_found(
    team: Team, agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str
) -> None:
    elsewhere = owned["ada", "beta"].session
    stated = arguments(tool, agents["ada"], owned["ada", "alpha"], session=elsewhere)
    before = revision(team, "alpha")
    agents["ada"].call(tool, **stated).error("NotFound")
    assert revision(team, "alpha") == before


def test_the_same_conversation_is_another_session_for_each_client_and_project(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned]
) -> None:
    found = {
        place: agents[place[0]].call("awr_session_get", project=place[1], conversation=CONVERSATION).value()
        for place in PLACES
    }
    assert {place: body["session"]["id"] for place, body in found.items()} == {
        place: record.session for place, record in owned.items()
    }
    agents["cyd"].call("awr_session_get", project="alpha", conversation=CONVERSATION).error("NotFound")
    hers = owned["ada", "alpha"].session
    agents["bob"].call("awr_session_get", project="alpha", conversation=CONVERSATION, session=hers).error(
        "RuleViolation"
    )


def leaked(reply: Reply, record: Owned, sent: object = None) -> list[str]:
    """Return what an answer shows of another client's records, beside what was in the question."""
    shown, said = reply.content.decode(), json.dumps(sent)
    return [word for word in record.words if word in shown and word not in said]


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("awr_session_list", {}),
        ("awr_event_history", {"limit": 100}),
        ("awr_work_history", {"work": "parse", "limit": 100}),
        ("awr_search", {"text": "secretly"}),
        ("awr_search", {"text": "whether"}),
        ("awr_search", {"kind": "event", "limit": 100}),
        ("awr_execution_list", {}),
        ("awr_project_status", {"view": "full"}),
        ("awr_work_get", {"work": "parse"}),
        ("awr_work_graph", {}),
        ("awr_work_ready", {}),
        ("awr_evidence_show", {"work": "parse"}),
    ],
)
def test_no_list_shows_what_another_clients_session_holds(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str, more: dict[str, Any]
) -> None:
    for client in ("bob", "cyd"):
        reply = agents[client].call(tool, project="alpha", **more)
        assert leaked(reply, owned["ada", "alpha"], more) == []
        reply.result()


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("awr_work_prepare", {}),
        ("awr_context_bootstrap", {}),
        ("awr_context_compile", {"detached": True}),
    ],
)
def test_a_context_of_work_shows_no_words_of_another_clients_session(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str, more: dict[str, Any]
) -> None:
    hers = owned["ada", "alpha"]
    for client in ("bob", "cyd"):
        shown = agents[client].call(tool, project="alpha", work=hers.work, **more).content.decode()
        # What runs for the work is known to everybody who might do it a second time.
        assert hers.operation_key in shown
        assert not [word for word in (hers.wait, hers.event, "Secretly", "Whether") if word in shown]


def test_a_context_is_compiled_for_ones_own_session_or_for_named_work(agents: dict[str, Agent]) -> None:
    for given in ({}, {"work": "parse"}, {"detached": True}):
        agents["bob"].call("awr_context_compile", project="alpha", **given).error("InvalidInput")


def test_histories_show_a_client_its_own_and_what_belongs_to_nobody(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned]
) -> None:
    def seen(client: str) -> tuple[set[Any], set[str]]:
        found: list[dict[str, Any]] = []
        more: dict[str, Any] = {}
        while True:
            page = agents[client].call("awr_event_history", project="alpha", limit=100, **more).value()
            found += page["events"]
            if page["next_cursor"] is None:
                return {one["session_id"] for one in found}, {one["type"] for one in found}
            more = {"cursor": page["next_cursor"]}

    hers, his = owned["ada", "alpha"].session, owned["bob", "alpha"].session
    assert hers in seen("ada")[0]
    assert his not in seen("ada")[0]
    assert his in seen("bob")[0]
    assert seen("cyd")[0] == {None}
    for client in GRANTS:
        assert not [kind for kind in seen(client)[1] if kind.startswith("mcp.operation_")]


@pytest.mark.parametrize("kind", ["event", "observed"])
def test_another_clients_event_is_not_found(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], kind: str
) -> None:
    event = getattr(owned["ada", "alpha"], kind)
    assert agents["ada"].call("awr_event_show", project="alpha", event=event).value()["ok"] is True
    for client in ("bob", "cyd"):
        agents[client].call("awr_event_show", project="alpha", event=event, full=True).error("NotFound")
    agents["ada"].call("awr_event_show", project="beta", event=event).error("NotFound")


def test_only_the_client_that_asked_may_reply(agents: dict[str, Agent], owned: dict[tuple[str, str], Owned]) -> None:
    given = arguments("awr_session_reply", agents["bob"], owned["ada", "alpha"])
    report = agents["bob"].call("awr_session_reply", **given).error("RuleViolation")
    assert "Whether" not in json.dumps(report)
    stated = arguments("awr_session_reply", agents["ada"], owned["ada", "alpha"], project="beta")
    agents["ada"].call("awr_session_reply", **stated).error("NotFound")


@pytest.mark.parametrize("tool", ["awr_operation_get", "awr_operation_recover"])
def test_another_clients_write_is_not_found(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned], tool: str
) -> None:
    given = arguments(tool, agents["bob"], owned["ada", "alpha"])
    agents["bob"].call(tool, **given).error("NotFound")
    elsewhere = arguments(tool, agents["ada"], owned["ada", "alpha"], project="beta")
    agents["ada"].call(tool, **elsewhere).error("NotFound")


def test_a_report_about_another_clients_execution_is_refused(
    agents: dict[str, Agent], owned: dict[tuple[str, str], Owned]
) -> None:
    given = arguments("awr_execution_report", agents["bob"], owned["ada", "alpha"])
    agents["bob"].call("awr_execution_report", **given).error("RuleViolation")


def test_one_request_id_is_another_write_for_each_client_and_project(agents: dict[str, Agent]) -> None:
    replies = []
    for client, project in PLACES:
        agent = agents[client]
        note = {"event_type": "note.added", "summary": "One each", "expected_revision": revision_of(agent, project)}
        replies.append(agent.call("awr_event_append", project=project, request_id="shared", **note).value())
    assert len({reply["operation"]["id"] for reply in replies}) == 3
    assert not any(reply["operation"]["replayed"] for reply in replies)
