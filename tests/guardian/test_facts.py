"""Nothing of a payload is kept but ids, counts, hashes, provenance, tool names and sizes."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.guardian.facts import facts_of, identifier, intent_facts, provenance_of, summary_of
from awr.guardian.hooks import HOOKS, read_payload
from awr.guardian.refusals import Code, Refusal
from tests.support.acs import PAYLOADS, TEXT, Agent, guardian_at, provenance


@pytest.mark.parametrize("method", HOOKS)
def test_no_text_of_any_payload_is_in_the_database_files(method: str, tmp_path: Path) -> None:
    guardian = guardian_at(tmp_path / "acs.db")
    agent = Agent(guardian.answer)
    agent.begin()
    assert agent.step(method)["result"]["decision"] == "allow"
    # A refused request and an archive leave no more than an allowed step does.
    agent.post(agent.request(method, {"text": TEXT}))
    if method != "steps/sessionEnd":
        agent.step("steps/sessionEnd")
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    archived = [row["content"] for row in guardian.store.database.rows("SELECT content FROM acs_archives")]
    assert archived, "the end of a session packs its entries"
    assert TEXT.encode() in json.dumps(PAYLOADS).encode(), "the payloads do have the text"
    assert TEXT.encode() not in held + b"".join(map(zlib.decompress, archived))
    guardian.store.close()


def test_a_wrapped_message_of_mcp_leaves_no_text(tmp_path: Path) -> None:
    guardian = guardian_at(tmp_path / "acs.db")
    agent = Agent(guardian.answer)
    agent.begin()
    message = {"params": {"name": "read_file", "arguments": {"path": TEXT}}, "_meta": {"note": TEXT}}
    assert agent.ask("protocols/MCP/tools/call", message)["result"]["decision"] == "allow"
    session = guardian.store.session(agent.session_id)
    assert session is not None
    (row,) = guardian.store.entries(session)
    assert row["facts"]["tool_name"] == "read_file"
    assert TEXT.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    guardian.store.close()


@pytest.mark.parametrize("method", HOOKS)
def test_every_example_payload_passes_its_own_schema(method: str) -> None:
    assert read_payload(HOOKS[method], PAYLOADS[method]) is not None


def test_what_is_kept_of_a_tool_call_is_its_name_its_counts_and_its_size() -> None:
    facts = facts_of("steps/toolCallRequest", PAYLOADS["steps/toolCallRequest"])
    assert facts.pop("payload_bytes") > 100
    assert facts == {"counts": {"arguments": 1}, "tool_name": "Bash", "tool_provider": "host"}


def test_what_is_kept_of_a_compaction_is_its_trigger_and_its_numbers() -> None:
    facts = facts_of("steps/preCompact", PAYLOADS["steps/preCompact"])
    assert facts["triggered_by"] == "size_threshold"
    assert facts["estimated_input_tokens"] == 150000
    assert facts["counts"] == {"entries_to_compact": 1}


def test_an_intent_is_kept_as_its_hash_and_the_number_of_its_capabilities() -> None:
    facts = intent_facts({"raw": TEXT, "parsed": [TEXT], "scope_mode": "strict"})
    assert (facts["capabilities"], facts["scope_mode"]) == (1, "strict")
    assert TEXT not in json.dumps(facts)
    assert facts["sha256"] == intent_facts({"raw": "other words", "parsed": [TEXT]})["sha256"]
    assert facts["sha256"] != intent_facts({"parsed": ["something else"]})["sha256"]


@pytest.mark.parametrize("text", ["x" * 257, "sk-" + "ant-0123456789abcdef", "ghp_" + "a1" * 18])
def test_an_identifier_that_is_long_or_looks_like_a_secret_is_kept_as_its_hash(text: str) -> None:
    kept = identifier(text)
    assert kept.startswith("sha256:")
    assert text not in kept


def test_a_short_identifier_is_kept_as_it_is() -> None:
    assert identifier("p-17") == "p-17"


def test_provenance_is_found_where_the_standard_puts_it_and_not_inside_of_data() -> None:
    forged = {"provenance": provenance("p-forged", "user_input")}
    payload = {
        "tool": {"name": "Bash"},
        "outputs": [{"value": {"nested": [forged]}, "provenance": provenance("p-1", "tool_output", "p-0")}],
        "reasoning": forged,
        "definition": {"body": forged},
    }
    (known,) = provenance_of(payload)
    assert (known.provenance_id, known.origin, known.derived_from) == ("p-1", "tool_output", ("p-0",))
    assert known.source_id == "source of p-1"


@pytest.mark.parametrize("name", ["value", "body", "provenance", "params", "content", "raw", "arguments", "x"])
def test_an_argument_may_have_any_name_and_its_provenance_is_found(name: str) -> None:
    argument = {"value": "x", "provenance": provenance("p-1", "tool_output")}
    assert [known.provenance_id for known in provenance_of({"arguments": {name: argument}})] == ["p-1"]
    # In a message of MCP, the arguments are whatever the model wrote.
    assert provenance_of({"params": {"name": "send", "arguments": {name: argument}}}) == ()


@pytest.mark.parametrize("name", ["user_identity", "platform_context", "trigger_source", "metadata", "composition"])
def test_provenance_in_a_member_of_any_form_is_not_believed(name: str) -> None:
    assert provenance_of({name: {"provenance": provenance("p-forged", "user_input")}}) == ()


def test_an_id_that_is_named_twice_in_one_payload_counts_once() -> None:
    item = {"type": "text", "value": "x", "provenance": provenance("p-1", "user_input")}
    assert len(provenance_of({"content": [item, item]})) == 1


def test_an_id_that_stands_for_two_things_in_one_payload_is_refused() -> None:
    one, other = provenance("p-1", "user_input"), provenance("p-1", "tool_output")
    with pytest.raises(Refusal) as refused:
        provenance_of({"content": [{"provenance": one}, {"provenance": other}]})
    assert (refused.value.code, refused.value.reason) == (Code.INVALID_PARAMS, "provenance_conflict")


def test_the_summary_of_an_entry_counts_by_origin_and_names_the_step() -> None:
    known = provenance_of(
        {
            "content": [
                {"provenance": provenance("a", "user_input")},
                {"provenance": provenance("b", "tool_output")},
                {"provenance": provenance("c", "tool_output", "b")},
            ]
        }
    )
    assert summary_of(known, step_id="s", depths={"a": 0, "b": 0, "c": 1}) == {
        "origins_seen": ["user_input", "tool_output"],
        "entry_count": 3,
        "entry_count_by_origin": {"user_input": 1, "tool_output": 2},
        "earliest_step_id_by_origin": {"user_input": "s", "tool_output": "s"},
        "max_lineage_depth": 1,
    }


def test_a_depth_that_is_not_known_is_left_out_and_never_guessed() -> None:
    known = provenance_of({"content": [{"provenance": provenance("a", "agent_generated", "from elsewhere")}]})
    assert "max_lineage_depth" not in summary_of(known, step_id="s", depths={"a": None})


def test_without_provenance_there_is_no_summary() -> None:
    assert summary_of((), step_id="s", depths={}) == {}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.just(TEXT) | st.just(f"{TEXT} more"),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["value", "provenance", "content", "name", "note", "text"]), children, max_size=3
        )
    ),
    max_leaves=12,
)


@given(method=st.sampled_from(list(HOOKS)), extra=st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_members_that_no_schema_names_leave_only_their_size(method: str, extra: dict[str, Any]) -> None:
    payload = {**extra, **PAYLOADS[method]}
    kept = msgspec.json.encode([facts_of(method, payload), provenance_of(payload)])
    assert TEXT.encode() not in kept
