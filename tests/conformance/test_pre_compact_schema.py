"""Our schema of `steps/preCompact`, the standard's own and the Guardian's reader accept and refuse the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from referencing import Registry, Resource

from awr.domain.provenance import ORIGINS
from awr.guardian.hooks import HOOKS, payload_schema, read_payload
from awr.guardian.reading import read_json
from awr.guardian.refusals import Code, Refusal
from tests.conformance.requirements import covers

METHOD = "steps/preCompact"
STANDARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "acs" / "pre-compact.schema.json").read_bytes()
)

_COUNT = {"type": "integer", "minimum": 0}
_ORIGIN = {"enum": list(ORIGINS)}
#: What the standard says of a ProvenanceSummary, which its schema of the hook refers to.
SUMMARY: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": STANDARD["$id"].replace("/hooks/pre-compact.json", "/provenance-summary.json"),
    "type": "object",
    "properties": {
        "origins_seen": {"type": "array", "items": _ORIGIN, "uniqueItems": True},
        "entry_count": _COUNT,
        "entry_count_by_origin": {"type": "object", "propertyNames": _ORIGIN, "additionalProperties": _COUNT},
        "earliest_step_id_by_origin": {
            "type": "object",
            "propertyNames": _ORIGIN,
            "additionalProperties": {"type": "string"},
        },
        "max_lineage_depth": _COUNT,
    },
}
REGISTRY: Registry[Any] = Resource.from_contents(SUMMARY) @ Registry()
THEIRS = Draft202012Validator(STANDARD, registry=REGISTRY)
OURS = Draft202012Validator(payload_schema(METHOD))

TRIGGERS = STANDARD["properties"]["triggered_by"]["enum"]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
#: Values of every kind that JSON has, and those that two readers of a number see differently.
strange: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 1.0, 1.5, -0.0, -1.0, 2**53 - 1, 1e15, [], {}, "", "0", [1], {"a": 1}]),
    texts,
    st.lists(texts, max_size=3),
)
counts = st.integers(0, 2**53 - 1)
steps = st.one_of(st.lists(texts, min_size=1, max_size=4), st.just(["a step"] * 300))
summaries = st.fixed_dictionaries(
    {},
    optional={
        "origins_seen": st.lists(st.sampled_from(ORIGINS), unique=True, max_size=7),
        "entry_count": counts,
        "entry_count_by_origin": st.dictionaries(st.sampled_from(ORIGINS), counts, max_size=3),
        "earliest_step_id_by_origin": st.dictionaries(st.sampled_from(ORIGINS), texts, max_size=3),
        "max_lineage_depth": counts,
        "of the future": strange,
    },
)
valid: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"entries_to_compact": steps, "triggered_by": st.sampled_from(TRIGGERS)},
    optional={
        "pre_compact_provenance_summary": summaries,
        "estimated_input_tokens": st.one_of(counts, st.just(150_000.0)),
        "target_summary_tokens": counts,
        "of the future": strange,
    },
)
_MEMBERS = [*STANDARD["properties"], *(("pre_compact_provenance_summary", name) for name in SUMMARY["properties"])]


@st.composite
def nearly_valid(draw: st.DrawFn) -> dict[str, Any]:
    """Return a valid payload of which one member is gone, or is something else."""
    payload = draw(valid)
    payload["pre_compact_provenance_summary"] = dict(payload.get("pre_compact_provenance_summary", {}))
    path = draw(st.sampled_from(_MEMBERS))
    place, name = (payload, path) if isinstance(path, str) else (payload[path[0]], path[1])
    other = st.one_of(
        strange,
        st.lists(st.one_of(strange, st.sampled_from(ORIGINS)), max_size=3),
        st.lists(st.sampled_from(ORIGINS), max_size=3),
        st.dictionaries(st.one_of(texts, st.sampled_from(ORIGINS)), strange, max_size=2),
        st.sampled_from([*ORIGINS, *TRIGGERS, "Manual", "token_limit"]),
    )
    if draw(st.booleans()):
        place[name] = draw(other)
    else:
        place.pop(name, None)
    return payload


anything: st.SearchStrategy[Any] = st.dictionaries(
    st.one_of(st.sampled_from(list(STANDARD["properties"])), texts), strange, max_size=5
)


def accepted_by_the_reader(payload: dict[str, Any]) -> bool:
    """Tell whether the Guardian takes a payload, which it reads from the bytes of the wire."""
    read = read_json(json.dumps(payload).encode())
    try:
        read_payload(HOOKS[METHOD], read)
    except Refusal as refusal:
        assert refusal.code == Code.INVALID_PARAMS
        return False
    return True


@covers("compaction-hooks")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(payload=st.one_of(valid, nearly_valid(), anything))
def test_the_same_payloads_are_accepted_and_refused(payload: dict[str, Any]) -> None:
    theirs = THEIRS.is_valid(payload)
    event(f"accepted: {theirs}")
    assert OURS.is_valid(payload) == theirs, "our schema and the standard's"
    assert accepted_by_the_reader(payload) == theirs, "the Guardian and the standard's schema"


@covers("compaction-hooks")
@settings(max_examples=50, deadline=None)
@given(payload=valid)
def test_a_valid_payload_is_accepted(payload: dict[str, Any]) -> None:
    assert THEIRS.is_valid(payload)


@covers("compaction-hooks")
@pytest.mark.parametrize(
    "change",
    [
        {"entries_to_compact": []},
        {"entries_to_compact": None},
        {"entries_to_compact": ["a", 1]},
        {"triggered_by": "token_limit"},
        {"triggered_by": None},
        {"estimated_input_tokens": -1},
        {"estimated_input_tokens": 1.5},
        {"target_summary_tokens": True},
        {"target_summary_tokens": "1"},
        {"pre_compact_provenance_summary": []},
        {"pre_compact_provenance_summary": {"origins_seen": ["system", "system"]}},
        {"pre_compact_provenance_summary": {"origins_seen": ["model"]}},
        {"pre_compact_provenance_summary": {"entry_count_by_origin": {"model": 1}}},
        {"pre_compact_provenance_summary": {"entry_count_by_origin": {"system": -1}}},
        {"pre_compact_provenance_summary": {"earliest_step_id_by_origin": {"system": 1}}},
        {"pre_compact_provenance_summary": {"max_lineage_depth": 0.5}},
    ],
)
def test_each_way_to_be_wrong_is_refused_by_all_three(change: dict[str, Any]) -> None:
    payload = {"entries_to_compact": ["a"], "triggered_by": "manual", **change}
    assert [THEIRS.is_valid(payload), OURS.is_valid(payload), accepted_by_the_reader(payload)] == [False] * 3


@covers("compaction-hooks")
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"estimated_input_tokens": 1.0},
        {"target_summary_tokens": 0},
        {"of the future": None},
        {"pre_compact_provenance_summary": {}},
        {"pre_compact_provenance_summary": {"entry_count": 1.0, "of the future": 1}},
        {"entries_to_compact": ["a step"] * 10_000},
    ],
)
def test_each_way_to_be_right_is_accepted_by_all_three(change: dict[str, Any]) -> None:
    payload = {"entries_to_compact": ["a"], "triggered_by": "manual", **change}
    assert [THEIRS.is_valid(payload), OURS.is_valid(payload), accepted_by_the_reader(payload)] == [True] * 3
