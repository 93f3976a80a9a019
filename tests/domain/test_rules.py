"""Which rules hold for a piece of work, and what cannot be told."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.domain.rules import Rule, applies, is_unresolved, path_matches
from awr.domain.work import WorkItem


def rule(scope: Any = "project", value: str | None = "*", severity: Any = "hard") -> Rule:
    return Rule(external_key="r", title="Rule", line=1, severity=severity, scope_type=scope, scope_value=value)


def work(**fields: Any) -> WorkItem:
    return WorkItem(external_key="parse", title="Parse", status="planned", line=1, **fields)


def held(given: Rule, *, item: WorkItem | None = None, **known: Any) -> bool | None:
    facts = {"paths": None, "tags": None, "agent": None, **known}
    return applies(given, work=item or work(), **facts)


def test_a_rule_without_severity_scope_or_value_is_unresolved() -> None:
    assert not is_unresolved(rule())
    assert is_unresolved(rule(severity=None))
    assert is_unresolved(rule(scope=None))
    assert is_unresolved(rule(value=None))


def test_a_rule_without_a_scope_cannot_be_told() -> None:
    assert held(rule(scope=None)) is None
    assert held(rule(value=None)) is None


def test_a_star_means_the_whole_project_and_another_name_cannot_be_told() -> None:
    assert held(rule()) is True
    assert held(rule(value="other")) is None


def test_a_work_item_rule_holds_for_its_own_key_only() -> None:
    assert held(rule("work_item", "parse")) is True
    assert held(rule("work_item", "Parse")) is False


def test_an_agent_rule_cannot_be_told_without_an_agent() -> None:
    assert held(rule("agent", "me")) is None
    assert held(rule("agent", "me"), agent="me") is True
    assert held(rule("agent", "me"), agent="you") is False


def test_tags_of_the_ledger_and_of_the_caller_both_count() -> None:
    assert held(rule("tag", "api"), item=work(tags=("api",))) is True
    assert held(rule("tag", "api"), tags=["api"]) is True
    assert held(rule("tag", "api"), item=work(tags=("db",)), tags=["ui"]) is False


def test_unknown_paths_leave_a_path_rule_open_and_no_paths_close_it() -> None:
    assert held(rule("path", "src/**")) is None
    assert held(rule("path", "src/**"), paths=[]) is False


def test_paths_of_the_ledger_count_where_the_caller_names_none() -> None:
    assert held(rule("path", "src/**"), item=work(paths=("src/a.py",))) is True
    assert held(rule("path", "src/**"), item=work(paths=("docs/a.md",))) is False


@pytest.mark.parametrize("path", ["src/*.py", "src/", "src/[ab].py", "/src/a.py", "../src/a.py"])
def test_a_pattern_a_folder_or_a_place_outside_counts_as_unknown(path: str) -> None:
    assert held(rule("path", "docs/**"), item=work(paths=(path,))) is None
    assert held(rule("path", "docs/**"), paths=[path]) is None


def test_a_match_decides_even_where_another_path_is_unknown() -> None:
    assert held(rule("path", "src/**"), item=work(paths=("lib/", "src/a.py"))) is True


def test_named_paths_settle_what_the_ledger_leaves_open_and_hide_nothing_that_it_states() -> None:
    assert held(rule("path", "src/**"), item=work(paths=("lib/",)), paths=["docs/a.md"]) is False
    assert held(rule("path", "src/**"), item=work(paths=("src/a.py",)), paths=["docs/a.md"]) is True


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "SRC/a.py", False),
        ("src/a.py", "./src/a.py", True),
        ("./src/a.py", "src/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/in/a.py", False),
        ("*", "a", True),
        ("*", "a/b", False),
        ("src?a.py", "src/a.py", False),
        ("src/?.py", "src/a.py", True),
        ("src/[ab].py", "src/b.py", True),
        ("src/[!ab].py", "src/b.py", False),
        ("src/", "src/a.py", True),
        ("src/", "src/in/deep/a.py", True),
        ("src/", "src", False),
        ("src/", "src2/a.py", False),
        ("src/**", "src/in/a.py", True),
        ("src/**", "src", False),
        ("**", "a/b", True),
        ("**/a.py", "a.py", True),
        ("**/a.py", "x/y/a.py", True),
        ("src/**/a.py", "src/a.py", True),
        ("src/**/a.py", "src/x/y/a.py", True),
        ("src/**/a.py", "lib/a.py", False),
        ("src/**/**/a.py", "src/x/a.py", True),
        ("src/*.{ts,tsx}", "src/a.tsx", True),
        ("src/*.{ts,tsx}", "src/a.js", False),
        ("{src,lib}/", "lib/a", True),
        ("{a,{b,c}d}", "cd", True),
    ],
)
def test_globs_are_case_sensitive_and_keep_to_their_folder(pattern: str, path: str, matches: bool) -> None:
    assert path_matches(pattern, path) is matches


@pytest.mark.parametrize("pattern", ["a\\*", "{a", "a}", " ", "{a,b}" * 9])
def test_a_pattern_that_cannot_be_decided_is_unknown(pattern: str) -> None:
    assert path_matches(pattern, "a") is None


def test_a_pattern_made_to_take_long_is_decided_at_once() -> None:
    started = time.process_time()
    assert path_matches("*a" * 200 + "b", "a" * 2000) is False
    assert path_matches("**/*a/" * 200 + "b", "/".join(["a"] * 1500)) is False
    # Tried in every way these would take longer than anybody lives; whatever the machine does, not seconds of work.
    assert time.process_time() - started < 30


@given(
    st.lists(st.text(alphabet="abc.", min_size=1, max_size=4).filter(lambda s: s.strip(".")), min_size=1, max_size=5)
)
def test_a_path_matches_itself_and_every_folder_above_it(steps: list[str]) -> None:
    path = "/".join(steps)
    assert path_matches(path, path) is True
    for depth in range(1, len(steps)):
        assert path_matches("/".join(steps[:depth]) + "/", path) is True
