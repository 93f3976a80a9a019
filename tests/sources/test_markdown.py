"""Headings become goals, plans and rules: their keys, their words, and what is refused."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.domain.rules import Rule
from awr.errors import AwrError, InvalidInput, RuleViolation, SourceConflict
from awr.sources.ledger import Ledger
from awr.sources.manifest import MarkdownOptions
from awr.sources.markdown import parse_headings

DOCS = Path(__file__).parents[2] / "docs"


def parse(text: str, *, domain: str = "rules", **options: Any) -> Ledger:
    return parse_headings(text.encode(), locator="R.md", domain=domain, options=MarkdownOptions(**options))


def rules(text: str, **options: Any) -> tuple[Rule, ...]:
    return parse(text, **options).rules


def keys(text: str, **options: Any) -> list[str]:
    return [rule.external_key.removeprefix("R.md#") for rule in rules(text, **options)]


def titles(text: str) -> list[str]:
    return [rule.title for rule in rules(text)]


def refused(text: str, kind: type[AwrError] = InvalidInput) -> tuple[object, object]:
    with pytest.raises(kind) as raised:
        parse(text)
    assert "zebra" not in json.dumps(raised.value.report())
    location = raised.value.details["location"]
    assert isinstance(location, dict)
    return raised.value.details.get("rule"), location["line"]


def test_a_heading_with_attributes_is_a_rule_word_for_word() -> None:
    text = "\n## Keep it green {#green severity=hard scope=project value=*}\n\nRun `make`.\n\n    code\n\n"
    assert rules(text) == (
        Rule(
            external_key="R.md#green",
            title="Keep it green",
            line=2,
            text="Run `make`.\n\n    code",
            severity="hard",
            scope_type="project",
            scope_value="*",
        ),
    )


def test_what_is_not_stated_is_none() -> None:
    (rule,) = rules("# A\n")
    assert (rule.severity, rule.scope_type, rule.scope_value, rule.text) == (None, None, None, "")


def test_options_speak_for_headings_that_say_nothing() -> None:
    first, second = rules("# A\nx\n# B {severity=hard}\n", severity="soft", scope="tag", value="api")
    assert (first.severity, first.scope_type, first.scope_value) == ("soft", "tag", "api")
    assert (second.severity, second.scope_type, second.scope_value) == ("hard", "tag", "api")


def test_a_scope_of_its_own_borrows_no_value_from_the_options() -> None:
    (rule,) = rules("# A {scope=path}\n", severity="hard", scope="project", value="*")
    assert (rule.scope_type, rule.scope_value) == ("path", None)


def test_values_may_be_quoted_and_hold_braces() -> None:
    (rule,) = rules('# A {severity=hard scope=path value="src/my code/*.{ts,tsx}"}\n')
    assert rule.scope_value == "src/my code/*.{ts,tsx}"


def test_a_heading_becomes_a_goal_or_a_plan_by_its_domain() -> None:
    text = "# Ship it {#ship status=active}\nSoon.\n"
    (goal,) = parse(text, domain="goal", priority="high").goals
    assert (goal.external_key, goal.title, goal.status, goal.priority, goal.summary) == (
        "R.md#ship", "Ship it", "active", "high", "Soon."
    )  # fmt: skip
    (plan,) = parse(text, domain="plan").milestones
    assert (plan.kind, plan.external_key, plan.status, plan.summary) == ("plan", "R.md#ship", "active", "Soon.")
    assert parse("# Ship it\n", domain="goal").goals[0].status == "unknown"


def test_the_prefix_stands_where_the_locator_would() -> None:
    assert rules("# A\n", key_prefix="house")[0].external_key == "house#a"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Keep It Green!\n", ["keep-it-green"]),
        ("# A\nx\n# A\nx\n# a\n", ["a", "a-2", "a-3"]),
        ("# A\nx\n# A 2\nx\n# A\n", ["a", "a-2", "a-3"]),
        ("# A 2\nx\n# A\nx\n# A\n", ["a-2", "a", "a-3"]),
        ("# A\nx\n# Other {#a}\n", ["a-2", "a"]),
        ("# !!!\nx\n# ???\n", ["section", "section-2"]),
        ("# Größe 尺寸\n", ["größe-尺寸"]),
        ("# A  B_c-d\n", ["a--b_c-d"]),
    ],
)
def test_anchors_come_from_titles_and_never_meet(text: str, expected: list[str]) -> None:
    assert keys(text) == expected


def test_a_title_of_a_section_is_no_entity_and_keeps_its_anchor() -> None:
    assert keys("# Rules\n\n## A\nx\n\n### Rules\n") == ["a", "rules-2"]


def test_only_a_bare_heading_that_opens_a_section_is_a_title() -> None:
    assert titles("# Rules\n## A\n") == ["A"]
    assert titles("# Rules {#all}\n## A\n") == ["Rules", "A"]
    assert titles("# Rules {severity=hard}\n## A\n") == ["Rules", "A"]
    assert titles("# Rules\ntext\n## A\n") == ["Rules", "A"]
    assert titles("# Rules\n# A\n") == ["Rules", "A"]
    assert titles("# Rules\n") == ["Rules"]


@pytest.mark.parametrize(
    "text",
    [
        "# A\n```\n# no\n```\n",
        "# A\n~~~ sh\n# no\n```\n# no\n~~~\n",
        "# A\n````\n```\n# no\n````\n",
        "# A\n```\n# never closed\n",
        "# A\n- ```sh\n  # no\n  ```\n",
        "# A\n1. one\n\n   ```\n   # no\n   ```\n",
        "# A\n    # indented\n",
        "# A\n\t# indented\n",
        "# A\n> # quoted\n",
        "# A\n<!-- note\n# no\n-->\n",
        "# A\n<pre>\n# no\n</pre>\n",
        "# A\n#no-space\n#5\n",
        "# A\n####### seven\n",
        "# A\n\\# no\n",
        "---\ntitle: x\n# no\n---\n# A\n",
        "# A\n\n---\n\n***\n",
        "# A\n- item\n---\n",
        "# A\n| a |\n---\n",
    ],
)
def test_code_quotes_comments_and_rules_are_no_headings(text: str) -> None:
    assert titles(text) == ["A"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A\n===\nx\n\nB {#b}\n---\n", ["A", "B"]),
        ("two\nlines\n-----\n", ["two lines"]),
        ("# A ##\n", ["A"]),
        ("# A ## {#x}\n", ["A"]),
        ("# A {#x} ##\n", ["A"]),
        ("# C#\n", ["C#"]),
        ("# C# {#x}\n", ["C#"]),
        ("   ### A\n", ["A"]),
        ("#\tA\n", ["A"]),
        ("# A {name}\n", ["A {name}"]),
        ("# A {}\n", ["A {}"]),
        ("# A{#x}\n", ["A{#x}"]),
        ("# A\r\nx\r\n# B\r\n", ["A", "B"]),
        ("\ufeff# A\n", ["A"]),
        ("# A\n- ```\nouter\n# B\n", ["A", "B"]),
        ("# A\n``` `\n# B\n", ["A", "B"]),
        ("# A\n<!-- one line -->\n# B\n", ["A", "B"]),
    ],
)
def test_headings_are_found_as_markdown_has_them(text: str, expected: list[str]) -> None:
    assert titles(text) == expected


def test_lines_count_from_one_through_everything() -> None:
    assert [rule.line for rule in rules("---\na: b\n---\n\n```\n# x\n```\n# A\nx\n\nB\n---\n")] == [8, 11]


def test_an_empty_file_states_nothing() -> None:
    assert rules("") == ()
    assert rules("\n  \n") == ()


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("zebra\n", "markdown.no_heading", 1),
        ("# A\n#\n", "markdown.empty_heading", 2),
        ("# {#zebra}\n", "markdown.empty_heading", 1),
        ("# A {#a #zebra}\n", "markdown.attributes", 1),
        ("# A {#a zebra}\n", "markdown.attributes", 1),
        ("x\n# A {zebra=hard}\n", "markdown.attributes", 2),
        ("# A {status=active}\n", "markdown.attributes", 1),
        ("# A {severity=hard severity=hard}\n", "markdown.attributes", 1),
        ("# A {severity =hard}\n", "markdown.attributes", 1),
        ('# A {value="zebra}\n', "markdown.attributes", 1),
        ("# A {severity=zebra}\n", "markdown.attribute_value", 1),
        ("# A {scope=zebra}\n", "markdown.attribute_value", 1),
        ('# A {scope=tag value=" "}\n', "markdown.attribute_value", 1),
        (f"# A {{#{'z' * 600}}}\n", "markdown.key", 1),
        (f"x\n# {'z' * 600}\n", "markdown.key", 2),
        ("# A\nx\x00\n", "markdown.text", 2),
    ],
)
def test_what_is_malformed_is_refused_with_its_line(text: str, rule: str, line: int) -> None:
    assert refused(text) == (rule, line)


def test_an_anchor_that_stands_twice_is_a_conflict() -> None:
    assert refused("# A {#zebra}\nx\n# B {#zebra}\n", SourceConflict) == ("markdown.duplicate_anchor", 3)


def test_a_secret_in_the_text_is_refused_with_its_line() -> None:
    secret = "sk-ant-0123456789abcdefghij"
    assert refused(f"# A\n\nuse {secret}\n", RuleViolation) == ("source.public_content", 3)


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_headings(b"# A\n\xff\n", locator="R.md", domain="rules", options=MarkdownOptions())
    assert raised.value.details["rule"] == "source.encoding"


@pytest.mark.parametrize(
    "text",
    [
        "# " + "# " * 500_000,
        "# A" + " " * 1_000_000 + "b",
        "# " + " {#a" * 250_000 + "}",
        "# A {#a" + " b{}" * 250_000 + "}",
        "# A {#a " + "x=1 " * 250_000 + "}",
        "- " * 500_000 + "\n",
        "-" * 1_000_000 + "x\n",
        "# same\nx\n" * 100_000,
        "```\n" * 250_000,
        "<!-- -->\n" * 100_000,
    ],
    ids=range(10),
)
def test_a_file_made_to_take_long_is_settled_soon(text: str) -> None:
    started = time.monotonic()
    with suppress(AwrError):
        parse(text)
    assert time.monotonic() - started < 8


@given(st.text(alphabet='#ab {}=`~-\n\t>*1.<!"', max_size=80))
def test_any_text_parses_or_is_refused_with_a_place(text: str) -> None:
    try:
        found = rules(text)
    except AwrError as error:
        assert isinstance(error.details["location"], dict)
    else:
        assert len({rule.external_key for rule in found}) == len(found)
        assert all(rule.title for rule in found)


def test_the_example_in_the_documentation_parses_without_a_gap() -> None:
    page = (DOCS / "how-to" / "write-rules-and-goals.md").read_text()
    (example,) = re.findall(r"^```markdown\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [(rule.external_key, rule.severity, rule.scope_type, rule.scope_value) for rule in rules(example)] == [
        ("R.md#green", "hard", "project", "*"),
        ("R.md#grammar", "hard", "path", "src/grammar/"),
        ("R.md#short-functions", "soft", "path", "src/**/*.py"),
    ]
