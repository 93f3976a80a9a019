"""MODIFY, applied: a text, or edits that do not touch, or nothing at all."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.client.acs.modification import COMPOSITION, UNSUPPORTED, Inapplicable, modified

TOOL = "steps/toolCallRequest"
MCP = "protocols/MCP/tools/call"


def call(**arguments: Any) -> dict[str, Any]:
    return {"tool": {"name": "t"}, "arguments": {name: {"value": value} for name, value in arguments.items()}}


def refused(method: str, payload: dict[str, Any], modifications: Any) -> str:
    with pytest.raises(Inapplicable) as caught:
        modified(method, payload, modifications)
    return caught.value.code


def test_a_redaction_overwrites_its_place_with_the_default_text_or_its_own() -> None:
    payload = {"content": [{"type": "text", "value": "a"}, {"type": "text", "value": "b"}]}
    edits = {"redactions": [{"path": "/content/1/value"}, {"path": "/content/0/value", "replacement": 7}]}
    assert modified("steps/userMessage", payload, edits) == {
        "content": [{"type": "text", "value": 7}, {"type": "text", "value": "[REDACTED]"}]
    }


def test_an_override_sets_the_value_of_a_native_argument_and_keeps_what_stands_beside_it() -> None:
    payload = call(a=1, b=2)
    payload["arguments"]["a"]["provenance"] = {"provenance_id": "p", "origin": "user_input"}
    changed = modified(TOOL, payload, {"parameter_overrides": {"a": [3]}})
    assert isinstance(changed, dict)
    assert changed["arguments"] == {
        "a": {"value": [3], "provenance": {"provenance_id": "p", "origin": "user_input"}},
        "b": {"value": 2},
    }


def test_an_override_sets_a_wrapped_argument_itself() -> None:
    payload = {"method": "tools/call", "params": {"name": "t", "arguments": {"a": 1}}}
    assert modified(MCP, payload, {"parameter_overrides": {"a": 2, "b": 3}}) == {
        "method": "tools/call",
        "params": {"name": "t", "arguments": {"a": 2, "b": 3}},
    }


def test_an_argument_that_was_not_there_is_added() -> None:
    changed = modified(TOOL, call(a=1), {"parameter_overrides": {"limit": 10}})
    assert isinstance(changed, dict)
    assert changed["arguments"]["limit"] == {"value": 10}


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        ("steps/userMessage", {"content": [], "arguments": {"a": {"value": 1}}}),
        (TOOL, {"tool": {"name": "t"}}),
        (TOOL, {"tool": {"name": "t"}, "arguments": {"a": "no object"}}),
        (MCP, {"params": {"name": "t"}}),
        (MCP, {"params": "t"}),
    ],
)
def test_an_override_where_there_are_no_arguments_cannot_be_applied(method: str, payload: dict[str, Any]) -> None:
    assert refused(method, payload, {"parameter_overrides": {"a": 2}}) == UNSUPPORTED


@pytest.mark.parametrize(
    "path",
    ["", "arguments.key", "/absent", "/arguments/key/value/deeper", "/arguments/list/value/01", "/arguments/~2",
     "/arguments/list/value/-", "/arguments/list/value/2", "/arguments/~", "/arguments/list/value/" + "9" * 5_000],
)  # fmt: skip
def test_a_redaction_of_a_place_that_is_not_there_cannot_be_applied(path: str) -> None:
    assert refused(TOOL, call(key="k", list=[1, 2]), {"redactions": [{"path": path}]}) == UNSUPPORTED


def test_a_pointers_escapes_are_understood() -> None:
    payload = {"a/b": {"~1": 1, "~": 2}}
    edits = {"redactions": [{"path": "/a~1b/~01"}, {"path": "/a~1b/~0"}]}
    assert modified("steps/memoryStore", payload, edits) == {"a/b": {"~1": "[REDACTED]", "~": "[REDACTED]"}}


@pytest.mark.parametrize(
    "modifications",
    [
        None,
        [],
        {},
        {"redactions": []},
        {"redactions": [], "parameter_overrides": {}},
        {"modified_content": 1},
        {"redactions": ["/a"]},
        {"modified_content": "x", "parameter_overrides": {}},
        {"redactions": [{"path": "/arguments"}], "parameter_overrides": {"a": 1}},
        {"redactions": [{"path": "/arguments/a/value"}], "parameter_overrides": {"a": 1}},
        {"redactions": [{"path": "/arguments/a"}, {"path": "/arguments/a", "replacement": "other"}]},
    ],
)
def test_a_modification_that_says_nothing_or_two_things_is_refused(modifications: Any) -> None:
    assert refused(TOOL, call(a=1), modifications) == COMPOSITION


def test_a_text_takes_the_place_of_a_message_and_of_no_call() -> None:
    assert modified("steps/agentResponse", {"content": []}, {"modified_content": "x"}) == "x"
    assert refused(TOOL, call(a=1), {"modified_content": "x"}) == UNSUPPORTED
    assert refused(MCP, {"params": {}}, {"modified_content": "x"}) == UNSUPPORTED


JSON = st.recursive(
    st.integers(-9, 9) | st.text("ab/~", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~01", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: str = "") -> list[str]:
    found = [path]
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found += places(inner, f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}")
    return found


@given(payload=st.dictionaries(st.text("ab/~01", max_size=2), JSON, min_size=1, max_size=3), data=st.data())
def test_redactions_in_any_order_leave_nothing_of_their_places(payload: dict[str, Any], data: st.DataObject) -> None:
    paths = data.draw(st.lists(st.sampled_from(places(payload)[1:]), min_size=1, unique=True))
    edits = [{"path": path} for path in paths]
    one = modified("steps/memoryStore", copy.deepcopy(payload), {"redactions": edits})
    other = modified("steps/memoryStore", copy.deepcopy(payload), {"redactions": data.draw(st.permutations(edits))})
    assert one == other
    left = set(places(one))
    for path in paths:
        assert not any(place.startswith(path + "/") for place in left)
