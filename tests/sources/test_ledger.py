"""Every rule of the YAML ledger by its outcome. No diagnostic repeats a value."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from awr.domain.work import STATUSES, Dependency, Edge, EvidenceReference, WorkItem
from awr.errors import AwrError, InvalidInput, RuleViolation, SourceConflict, Unsupported
from awr.sources.files import YAML_LIMIT
from awr.sources.ledger import Ledger, parse_ledger


def parse(text: str, *, field_map: dict[str, str] | None = None, status_map: dict[str, str] | None = None) -> Ledger:
    return parse_ledger(text.encode(), locator="work.yaml", field_map=field_map, status_map=status_map)


def only(fields: str, **maps: dict[str, str]) -> WorkItem:
    """Parse a ledger with one work item whose flow-style fields are given."""
    (item,) = parse(f"work_items:\n- {{id: w, status: planned, {fields}}}\n", **maps).work_items
    return item


def refused(text: str, kind: type[AwrError] = InvalidInput) -> tuple[str, str, int, int]:
    """Return rule, pointer, line and column of the error that `text` gives."""
    with pytest.raises(kind) as raised:
        parse(text)
    assert "zebra" not in json.dumps(raised.value.report())
    details = raised.value.details
    assert {"got", "expected", "next_step", "rule", "repair"} <= details.keys()
    place = details["location"]
    assert isinstance(place, dict)
    assert place["locator"] == "work.yaml"
    return str(details["rule"]), place["pointer"], place["line"], place["column"]


FULL = """\
project: somebody else's field
goals:
  - id: g1
    title: Ship
    status: active
    priority: high
    summary: all of it
    success_criteria: [works, is fast]
milestones:
  m1:
    name: First
    status: open
    summary: begin
    scope: [parser, index]
    acceptance: done
work_items:
  - external_key: w1
    title: Parse 1.0
    status: " In_Progress "
    kind: task
    owner: ada
    required_for_v1: true
    priority: P0
    milestone: m1
    score: -3
    verification: {evidence_level: implemented}
    summary: |
      two
      lines
    next_action: write it
    blocker: null
    acceptance: it parses
    tags: [a, b, a]
    deliverables: [src/]
    depends_on: [w2, {id: w3, required: false}]
    dependencies: [{key: w3}, w2]
    goal: g1
    goals: [g2, g1]
    evidence: [reports/a.json, {path: b.json, summary: second}, {locator: c.json}]
    ordinary_completion: {confirmed: true, by: ada, at: null, notes: [x]}
    archived: true
"""


def test_every_field_of_a_ledger_is_read() -> None:
    ledger = parse(FULL)
    (goal,), (plan,), (item,) = ledger.goals, ledger.milestones, ledger.work_items
    assert (goal.external_key, goal.title, goal.status, goal.priority, goal.line) == (
        "g1",
        "Ship",
        "active",
        "high",
        3,
    )
    assert goal.success_criteria == ("works", "is fast")
    assert (plan.external_key, plan.title, plan.kind, plan.line) == ("m1", "First", "milestone", 10)
    assert (plan.status, plan.scope, plan.acceptance) == ("open", "parser\nindex", ("done",))
    assert item == WorkItem(
        external_key="w1",
        title="Parse 1.0",
        status="in_progress",
        raw_status=" In_Progress ",
        line=17,
        kind="task",
        owner="ada",
        required=True,
        priority="P0",
        milestone="m1",
        score=-3,
        evidence_level="implemented",
        summary="two\nlines\n",
        next_action="write it",
        acceptance=("it parses",),
        tags=("a", "b"),
        paths=("src/",),
        depends_on=(Dependency("w2"), Dependency("w3")),
        goals=("g1", "g2"),
        evidence=(
            EvidenceReference("reports/a.json"),
            EvidenceReference("b.json", "second"),
            EvidenceReference("c.json"),
        ),
        ordinary_completion={"confirmed": True, "by": "ada", "at": None, "notes": ["x"]},
        archived=True,
    )
    assert ledger.warnings == ()


def test_edges_follow_from_the_fields() -> None:
    ledger = parse(
        "work_items: [{id: w, status: ready, depends_on: [{id: d, required: false}, e], milestone: m, goal: g}]"
    )
    assert ledger.edges == (
        Edge("depends_on", "w", "d", required=False),
        Edge("depends_on", "w", "e"),
        Edge("part_of", "w", "m"),
        Edge("supports", "w", "g"),
    )


def test_list_and_keyed_map_say_the_same() -> None:
    listed = parse("work_items:\n- id: a\n  title: T\n  status: ready\n").work_items[0]
    keyed = parse("work_items:\n  a:\n    title: T\n    status: ready\n").work_items[0]
    assert listed == keyed


def test_missing_fields_stay_absent_and_title_is_the_key() -> None:
    item = only("title: null, score: ~, tags: , summary: ")
    assert item == WorkItem(external_key="w", title="w", status="planned", raw_status="planned", line=2)


def test_goal_and_milestone_status_default_to_unknown_without_a_warning() -> None:
    ledger = parse("goals: [{id: g}]\nmilestones: [{id: m}]\n")
    assert (ledger.goals[0].status, ledger.milestones[0].status, ledger.warnings) == ("unknown", "unknown", ())


def test_one_top_level_key_is_enough_even_when_empty() -> None:
    for text in ("goals: []", "milestones: {}", "work_items:", "work_items: null\nother: 1"):
        assert parse(text).work_items == ()


@pytest.mark.parametrize("text", ["", "# nothing", "other: 1", "[]", "text", "{}", "null"])
def test_source_without_ledger_keys_is_refused(text: str) -> None:
    assert refused(text)[:2] == ("ledger.top_level", "")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("work_items: zebra\n", ("ledger.kind", "/work_items", 1, 13)),
        ("goals:\n- zebra\n", ("ledger.kind", "/goals/0", 2, 3)),
        ("work_items:\n  zebra: null\n", ("ledger.kind", "/work_items/0", 2, 10)),
        ("work_items:\n- title: zebra\n", ("ledger.id", "/work_items/0", 2, 3)),
        ("work_items:\n- id: '  '\n", ("ledger.id", "/work_items/0", 2, 3)),
        ("work_items:\n- id: [zebra]\n", ("ledger.kind", "/work_items/0/id", 2, 7)),
        ("work_items:\n- id: zebra\n  external_key: other\n", ("ledger.id_conflict", "/work_items/0", 2, 3)),
        ("work_items:\n  zebra: {id: other}\n", ("ledger.id_conflict", "/work_items/0", 2, 3)),
        ("work_items:\n  zebra: {status: [ready]}\n", ("ledger.kind", "/work_items/0/status", 2, 19)),
        ("work_items:\n- id: a\n  required: zebra\n", ("ledger.kind", "/work_items/0/required", 3, 13)),
        ("work_items:\n- id: a\n  required: yes\n", ("ledger.kind", "/work_items/0/required", 3, 13)),
        ("work_items:\n- id: a\n  archived: 'true'\n", ("ledger.kind", "/work_items/0/archived", 3, 13)),
        ("work_items:\n- id: a\n  score: zebra\n", ("ledger.kind", "/work_items/0/score", 3, 10)),
        ("work_items:\n- id: a\n  score: 1.5\n", ("ledger.kind", "/work_items/0/score", 3, 10)),
        ("work_items:\n- id: a\n  score: 9223372036854775808\n", ("ledger.kind", "/work_items/0/score", 3, 10)),
        ("work_items:\n- id: a\n  tags: {zebra: 1}\n", ("ledger.kind", "/work_items/0/tags", 3, 9)),
        (
            "work_items:\n- id: a\n  acceptance:\n  - {zebra: 1}\n",
            ("ledger.kind", "/work_items/0/acceptance/0", 4, 5),
        ),
        (
            "work_items:\n- id: a\n  depends_on: [b, {required: true}]\n",
            ("ledger.id", "/work_items/0/depends_on/1", 3, 19),
        ),
        ("work_items:\n- id: a\n  depends_on: ['']\n", ("ledger.id", "/work_items/0/depends_on/0", 3, 16)),
        (
            "work_items:\n- id: a\n  evidence: [{summary: zebra}]\n",
            ("ledger.evidence", "/work_items/0/evidence/0", 3, 14),
        ),
        (
            "work_items:\n- id: a\n  evidence_level: zebra\n  verification: {evidence_level: released}\n",
            ("ledger.evidence_level_conflict", "/work_items/0", 2, 3),
        ),
        ('work_items:\n- id: a\n  title: "zebra\\x1b[2J"\n', ("ledger.text", "/work_items/0/title", 3, 10)),
        ('work_items:\n- id: "zebra\\nx"\n', ("ledger.id", "/work_items/0", 2, 3)),
        ("goals:\n- id: zebra\n  id: zebra\n", ("yaml.duplicate_key", "", 3, 3)),
        ("work_items:\n  zebra: {}\n  zebra: {}\n", ("yaml.duplicate_key", "", 3, 3)),
    ],
)
def test_broken_rule_is_invalid_with_pointer_and_place(text: str, place: tuple[str, str, int, int]) -> None:
    assert refused(text) == place


def test_id_that_stands_twice_is_a_conflict() -> None:
    for section in ("goals", "milestones", "work_items"):
        text = f"{section}:\n- id: zebra\n- external_key: zebra\n"
        assert refused(text, SourceConflict) == ("ledger.duplicate_id", f"/{section}/1", 3, 3)


def test_goal_and_work_item_may_share_an_id() -> None:
    ledger = parse("goals: [{id: a}]\nwork_items: [{id: a, status: ready}]\n")
    assert ledger.goals[0].external_key == ledger.work_items[0].external_key == "a"


def test_same_id_under_both_names_is_fine() -> None:
    assert parse("work_items: {a: {id: a, external_key: a, status: ready}}").work_items[0].external_key == "a"


def test_id_of_512_bytes_is_legal_and_one_more_is_not() -> None:
    assert parse(f"goals: [{{id: {'a' * 512}}}]").goals[0].external_key == "a" * 512
    assert refused(f"goals: [{{id: {'a' * 513}}}]")[0] == "ledger.id"


@pytest.mark.parametrize("status", sorted(STATUSES))
def test_canonical_status_is_recognized_in_any_case(status: str) -> None:
    (item,) = parse(f"work_items: [{{id: w, status: ' {status.upper()} '}}]").work_items
    assert item.status == status


@pytest.mark.parametrize("status", ["done", "todo", "zebra", "unknown", "yes"])
def test_other_status_is_unknown_with_a_warning_that_does_not_repeat_it(status: str) -> None:
    ledger = parse(f"work_items:\n- id: w\n  status: {status}\n")
    assert (ledger.work_items[0].status, ledger.work_items[0].raw_status) == ("unknown", status)
    (warning,) = ledger.warnings
    assert (warning.rule, warning.work_item_key, warning.line, warning.column) == (
        "ledger.unknown_status",
        "w",
        3,
        11,
    )
    assert warning.pointer == "/work_items/0/status"
    assert "zebra" not in warning.message


def test_missing_status_is_unknown_with_a_warning_at_the_item() -> None:
    ledger = parse("work_items:\n- id: w\n")
    assert (ledger.work_items[0].status, ledger.work_items[0].raw_status) == ("unknown", None)
    assert (ledger.warnings[0].line, ledger.warnings[0].pointer) == (2, "/work_items/0")


def test_status_map_gives_a_spelling_its_meaning() -> None:
    ledger = parse(
        "work_items: [{id: a, status: ' Done'}, {id: b, status: draft}]",
        status_map={"done": "completed", "draft": "planned"},
    )
    assert [item.status for item in ledger.work_items] == ["completed", "planned"]
    assert ledger.warnings == ()


def test_field_map_replaces_every_spelling_of_its_field() -> None:
    ledger = parse(
        "work_items:\n- {key: w, id: other, headline: T, title: no, state: ready, needs: [x],"
        " depends_on: [y], epic: g}\n",
        field_map={"id": "key", "title": "headline", "status": "state", "depends_on": "needs", "goal": "epic"},
    )
    (item,) = ledger.work_items
    assert (item.external_key, item.title, item.status, item.goals) == ("w", "T", "ready", ("g",))
    assert item.depends_on == (Dependency("x"),)


def test_field_map_leaves_goals_and_milestones_alone() -> None:
    assert parse("goals: [{id: g, title: T}]", field_map={"id": "key", "title": "headline"}).goals[0].title == "T"


def test_scalars_are_texts_as_they_are_written() -> None:
    assert only("title: 1.0, kind: yes, owner: 0x1F, tags: [1, true, 2024-01-01]") == WorkItem(
        external_key="w",
        title="1.0",
        status="planned",
        raw_status="planned",
        line=2,
        kind="yes",
        owner="0x1F",
        tags=("1", "true", "2024-01-01"),
    )


def test_single_text_counts_as_a_list_of_one() -> None:
    item = only("acceptance: works, tags: a, paths: src/, depends_on: d, goals: g, evidence: r.json")
    assert (item.acceptance, item.tags, item.paths, item.goals) == (("works",), ("a",), ("src/",), ("g",))
    assert item.depends_on == (Dependency("d"),)
    assert item.evidence == (EvidenceReference("r.json"),)


def test_dependency_named_twice_is_required_if_one_of_them_is() -> None:
    item = only("depends_on: [{id: d, required: false}], dependencies: [d]")
    assert item.depends_on == (Dependency("d", required=True),)


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ("evidence_level: none", None),
        ("evidence_level: None, verification: {evidence_level: released}", "released"),
        ("evidence_level: released, verification: {evidence_level: released}", "released"),
        ("verification: run the tests", None),
        ("verification: {evidence_level: null}", None),
    ],
)
def test_evidence_level_is_read_from_both_places(fields: str, level: str | None) -> None:
    assert only(fields).evidence_level == level


def test_anchors_are_accepted_and_merge_keys_are_not() -> None:
    item = parse("work_items:\n- {id: a, tags: &t [x, y]}\n- {id: b, tags: *t}\n").work_items[1]
    assert item.tags == ("x", "y")
    merge = "base: &b {status: ready}\nwork_items:\n- id: zebra\n  <<: *b\n"
    assert refused(merge, Unsupported) == ("yaml.merge_key", "", 4, 3)


def test_alias_bomb_in_a_ledger_is_refused() -> None:
    many = "x: &x [" + "a, " * 20_000 + "b]\nwork_items:\n"
    text = many + "".join(f"- {{id: w{n}, status: ready, tags: *x}}\n" for n in range(200))
    assert refused(text)[0] == "yaml.size"


def test_byte_order_mark_is_tolerated_and_other_encodings_are_not() -> None:
    assert parse_ledger(b"\xef\xbb\xbfgoals: []\n", locator="w").goals == ()
    with pytest.raises(InvalidInput):
        parse_ledger("goals: []\n".encode("utf-16"), locator="w")


def test_carriage_returns_end_lines() -> None:
    (item,) = parse("work_items:\r\n- id: a\r\n  status: ready\r\n").work_items
    assert (item.status, item.line) == ("ready", 2)


@pytest.mark.parametrize(
    "line",
    [
        "summary: the password is hunter2",
        "summary: 'password: hunter2'",
        'summary: "pass\\u0077ord: hunter2"',
        "summary: >-\n    password:\n    hunter2",
        "api_key:\n    hunter2",
        "auth: {token: 'hunter two'}",
        "# token=hunter2",
        "summary: ghp_hunter2hunter2hunter2hunter2hunter2",
    ],
)
def test_secret_anywhere_in_the_source_refuses_it_without_repeating_it(line: str) -> None:
    with pytest.raises(RuleViolation) as raised:
        parse(f"work_items:\n- id: a\n  {line}\n  status: ready\n")
    details = raised.value.details
    assert "hunter2" not in json.dumps(raised.value.report())
    assert details["rule"] == "source.public_content"
    assert isinstance(details["location"], dict)
    assert details["location"]["locator"] == "work.yaml"


def test_secret_on_its_own_line_is_placed() -> None:
    with pytest.raises(RuleViolation) as raised:
        parse("goals:\n- id: a\n  summary: token=hunter2\n")
    assert raised.value.details["location"] == {"locator": "work.yaml", "line": 3}


def test_public_words_about_secrets_pass() -> None:
    item = only("title: 'Rotate the token weekly', token: null, max_token: 4096, password: '[redacted]'")
    assert item.title == "Rotate the token weekly"


def test_ledger_of_four_mebibytes_is_parsed() -> None:
    unit = "- id: task-{0}\n  title: Task {0}\n  status: planned\n  summary: " + "words " * 30 + "\n"
    text = "work_items:\n"
    parts = [text]
    size = len(text)
    count = 0
    while size + len(entry := unit.format(count)) <= YAML_LIMIT:
        parts.append(entry)
        size += len(entry)
        count += 1
    ledger = parse("".join(parts) + "#" * (YAML_LIMIT - size))
    assert len(ledger.work_items) == count > 15_000


texts = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cf", "Cn", "Co", "Zl", "Zp")), max_size=20)
keys = st.from_regex(r"[a-z][a-z0-9._-]{0,8}", fullmatch=True)
items = st.fixed_dictionaries(
    {"title": texts.filter(bool), "status": st.sampled_from(sorted(STATUSES))},
    optional={
        "summary": texts.filter(bool),
        "acceptance": st.lists(texts, max_size=3),
        "tags": st.lists(texts, max_size=3, unique=True),
        "required": st.booleans(),
        "score": st.integers(-(2**63), 2**63 - 1),
        "depends_on": st.lists(keys, max_size=3, unique=True),
    },
)


def dumped(value: object) -> str:
    stream = io.StringIO()
    writer = YAML(typ="safe", pure=False)
    writer.allow_unicode = True
    writer.dump(value, stream)
    return stream.getvalue()


@given(st.dictionaries(keys, items, max_size=5), st.booleans())
def test_ledger_written_by_a_yaml_library_is_read_back_exactly(entries: dict[str, Any], keyed: bool) -> None:
    section: object = entries if keyed else [{"id": key, **fields} for key, fields in entries.items()]
    try:
        ledger = parse(dumped({"work_items": section}))
    except RuleViolation:
        # Random text may look like a secret; that refusal is tested elsewhere.
        return
    found = {item.external_key: item for item in ledger.work_items}
    assert found.keys() == entries.keys()
    for key, fields in entries.items():
        item = found[key]
        assert (item.title, item.status) == (fields["title"], fields["status"])
        assert item.summary == fields.get("summary")
        assert list(item.acceptance) == fields.get("acceptance", [])
        assert list(item.tags) == fields.get("tags", [])
        assert (item.required, item.score) == (fields.get("required", False), fields.get("score"))
        assert [each.key for each in item.depends_on] == fields.get("depends_on", [])


def outcome_of(data: bytes) -> Ledger | AwrError:
    try:
        return parse_ledger(data, locator="work.yaml")
    except AwrError as error:
        return error


@given(st.binary(max_size=400))
def test_any_bytes_give_a_ledger_or_one_of_our_errors(data: bytes) -> None:
    assert isinstance(outcome_of(data), AwrError | Ledger)


@given(st.binary(max_size=200), st.integers(0, len(FULL)))
def test_damaged_ledger_gives_a_ledger_or_one_of_our_errors(noise: bytes, at: int) -> None:
    whole = FULL.encode()
    assert isinstance(outcome_of(whole[:at] + noise + whole[at:]), AwrError | Ledger)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
names = st.sampled_from(
    ["id", "external_key", "title", "status", "depends_on", "goal", "goals", "evidence", "verification", "score"] * 2
    + [
        "evidence_level",
        "required",
        "acceptance",
        "tags",
        "work_items",
        "milestones",
        "key",
        "ordinary_completion",
        "<<",
    ]
)
structures = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=25
)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(["goals", "work_items", "milestones", "x"]), structures, min_size=1))
def test_any_structure_gives_a_ledger_or_one_of_our_errors(value: dict[str, object]) -> None:
    found = outcome_of(dumped(value).encode("utf-8", "surrogatepass"))
    if isinstance(found, AwrError):
        assert found.details["next_step"]
    else:
        assert len({item.external_key for item in found.work_items}) == len(found.work_items)
