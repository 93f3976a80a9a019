"""A folder without a manifest is searched within limits, and a goal in plain words becomes a ledger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.domain.secrets import find_secret
from awr.errors import InvalidInput, NotFound, RuleViolation, SourceConflict
from awr.sources import discovery
from awr.sources.discovery import find_ledger, find_ledgers, ledger_manifest, minimal_ledger
from awr.sources.ledger import parse_ledger
from awr.sources.manifest import parse_manifest, render_manifest

LEDGER = "work_items:\n  - id: a\n"


def write(root: Path, name: str, text: str = LEDGER) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_only_candidate_is_proposed(tmp_path: Path) -> None:
    write(tmp_path, "plans/work.yaml")
    write(tmp_path, "config.yml", "services:\n  goals: []\n")
    assert find_ledger(tmp_path) == "plans/work.yaml"


@pytest.mark.parametrize("text", ["goals: []\n", "milestones: {m: {}}\n", "version: 1\nwork_items:\n- id: x\n"])
def test_each_top_level_key_makes_a_candidate(tmp_path: Path, text: str) -> None:
    write(tmp_path, "a.yml", text)
    assert find_ledgers(tmp_path) == ("a.yml",)


@pytest.mark.parametrize(
    "text",
    [
        "goals: 5\n",
        "- goals: []\n",
        "x: {goals: []}\n",
        "x: goals\ny: []\n",
        "{\n",
        "",
        "goals\n",
        "x:\n  work_items: []\n",
    ],
)
def test_other_yaml_is_no_candidate(tmp_path: Path, text: str) -> None:
    write(tmp_path, "a.yaml", text)
    assert find_ledgers(tmp_path) == ()


def test_broken_ledger_is_still_a_candidate_so_that_its_error_can_be_shown(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "goals: []\nwork_items: [\n")
    assert find_ledgers(tmp_path) == ("a.yaml",)


def test_several_candidates_are_named_and_ask_for_a_manifest(tmp_path: Path) -> None:
    for number in range(7):
        write(tmp_path, f"l{number}.yaml")
    with pytest.raises(SourceConflict) as raised:
        find_ledger(tmp_path)
    assert "l0.yaml" in raised.value.what
    assert "2 more" in raised.value.what
    assert "--manifest" in str(raised.value.details["next_step"])


def test_no_candidate_leads_to_a_goal(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as raised:
        find_ledger(tmp_path)
    assert "--goal TEXT" in str(raised.value.details["next_step"])


@pytest.mark.parametrize(
    "name",
    [
        ".hidden.yaml",
        ".github/work.yaml",
        "node_modules/x/work.yaml",
        "target/work.yaml",
        "dist/work.yaml",
        "build/work.yaml",
        "venv/work.yaml",
        "my-credentials.yaml",
        "Secrets/work.yaml",
        "work.key",
        "work.pem",
        "work.txt",
    ],
)
def test_skipped_places_are_not_searched(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    assert find_ledgers(tmp_path) == ()


def test_links_are_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(outside, "work.yaml")
    root.mkdir()
    (root / "link.yaml").symlink_to(outside / "work.yaml")
    (root / "folder").symlink_to(outside)
    assert find_ledgers(root) == ()


def test_search_goes_twelve_folders_deep(tmp_path: Path) -> None:
    write(tmp_path, "/".join("d" * 12) + "/in.yaml")
    write(tmp_path, "/".join("d" * 13) + "/out.yaml")
    assert [path.rsplit("/", 1)[-1] for path in find_ledgers(tmp_path)] == ["in.yaml"]


def test_more_files_than_the_limit_ask_for_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert discovery.MAX_FILES == 20_000
    monkeypatch.setattr(discovery, "MAX_FILES", 3)
    for number in range(3):
        write(tmp_path, f"{number}.txt", "")
    assert find_ledgers(tmp_path) == ()
    write(tmp_path, "more.txt", "")
    with pytest.raises(InvalidInput) as raised:
        find_ledgers(tmp_path)
    assert "--manifest" in str(raised.value.details["next_step"])


def test_unusable_files_and_missing_folders_are_no_candidates(tmp_path: Path) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"goals: [\xff]\n")
    (tmp_path / "big.yaml").write_bytes(b"goals: []\n" + b"#" * (4 * 1024 * 1024))
    assert find_ledgers(tmp_path) == ()
    assert find_ledgers(tmp_path / "none") == ()


def test_deep_yaml_ends_the_look_without_a_crash(tmp_path: Path) -> None:
    write(tmp_path, "deep.yaml", "x: " + "[" * 100_000 + "\ngoals: []\n")
    assert find_ledgers(tmp_path) == ()


def test_proposed_manifest_parses_back() -> None:
    manifest = ledger_manifest("demo", path="work-ledger.yaml")
    assert parse_manifest(render_manifest(manifest).encode()) == manifest
    assert manifest.context_profile == "minimal"


legal_goals = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=500).filter(
    lambda text: bool(text.strip()) and find_secret(text) is None
)


@given(legal_goals)
def test_any_legal_goal_round_trips_through_its_ledger(goal: str) -> None:
    ledger = parse_ledger(minimal_ledger(goal).encode(), locator="work-ledger.yaml")
    (item,) = ledger.work_items
    assert ledger.goals[0].title == item.title == goal.strip()
    assert (item.external_key, item.status, item.goals) == ("task-1", "planned", ("goal-1",))
    assert item.next_action
    assert item.acceptance
    assert ledger.warnings == ()


@pytest.mark.parametrize("goal", ["", "  ", "a\nb", "a\x00b", "a\x1b[2J", "a\x85b", "x" * 501, "\ud800"])
def test_goal_that_is_no_sentence_is_invalid(goal: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        minimal_ledger(goal)
    assert "--goal" in str(raised.value.details["next_step"])


def test_goal_of_500_characters_is_legal() -> None:
    assert "x" * 500 in minimal_ledger("x" * 500)


def test_goal_with_a_secret_is_refused() -> None:
    with pytest.raises(RuleViolation) as raised:
        minimal_ledger("Use password: hunter2 to log in")
    assert "hunter2" not in json.dumps(raised.value.report())
