"""The claim says of a row what the run says of its tests, and nothing more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance import claim
from tests.conformance.claim import Run, page, status
from tests.conformance.requirements import PROFILES, ROWS, Row, covers

[REPLAY] = [row for row in ROWS if row.name == "replay"]
[ASK] = [row for row in ROWS if row.name == "ask"]
WORDS = re.compile(
    r"EXERCISED|NOT CLAIMED \((not-implemented|not-offered|governed-elsewhere|out-of-scope)\): .+"
    r"|NOT ESTABLISHED \((no-test|not-observed)\)(: .+)?"
)


def run_with(**outcomes: str) -> Run:
    """Return a run in which tests behind `replay` had these outcomes; `absent` was collected and never ran."""
    run = Run()
    run.marks = {name: [("replay", "guardian")] for name in outcomes}
    run.outcomes = {name: outcome for name, outcome in outcomes.items() if outcome != "absent"}
    return run


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ({"one": "passed"}, "EXERCISED"),
        ({"one": "passed", "two": "passed"}, "EXERCISED"),
        ({}, "NOT ESTABLISHED (no-test)"),
        ({"one": "passed", "two": "failed"}, "NOT ESTABLISHED (no-test)"),
        ({"one": "passed", "two": "skipped"}, "NOT ESTABLISHED (no-test)"),
        ({"one": "absent"}, "NOT ESTABLISHED (no-test)"),
    ],
)
def test_a_row_is_exercised_only_if_all_of_its_tests_ran_and_passed(outcomes: dict[str, str], said: str) -> None:
    assert status(run_with(**outcomes), REPLAY, "guardian") == said
    assert status(run_with(**outcomes), REPLAY, "agent") == "NOT ESTABLISHED (no-test)"


def test_a_row_that_is_not_claimed_says_so_whatever_ran() -> None:
    assert status(run_with(one="passed"), ASK, "guardian").startswith("NOT CLAIMED (not-offered): ")


def test_no_test_can_stand_behind_a_row_that_is_not_claimed_or_not_there() -> None:
    for name in ("ask", "another"):
        with pytest.raises(KeyError):
            covers(name)


def test_a_test_that_fails_in_any_phase_has_not_passed() -> None:
    class Report:
        nodeid = "one"
        user_properties = ()

        def __init__(self, when: str, outcome: str) -> None:
            self.when, self.outcome = when, outcome

    run = Run()
    for when, outcome in (("setup", "passed"), ("call", "passed"), ("teardown", "failed")):
        run.pytest_runtest_logreport(Report(when, outcome))  # type: ignore[arg-type]
    assert run.outcomes == {"one": "failed"}


def test_from_a_run_that_failed_no_page_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(claim, "ran", lambda: (Run(), 1))
    assert claim.main([str(tmp_path / "page.md")]) == 1
    assert not (tmp_path / "page.md").exists()


def test_no_cell_of_the_page_is_blank_or_in_words_of_our_own() -> None:
    text = page(run_with(one="passed"))
    for row in ROWS:
        [line] = [line for line in text.splitlines() if f"(`{row.name}`) |" in line]
        cells = line.strip("| ").split(" | ")[1:]
        assert len(cells) == 2
        assert all(WORDS.fullmatch(cell) for cell in cells), line
    assert all(f"\n### {profile}\n" in text for profile in PROFILES)
    assert "Core posture" in text
    assert re.search(r"\| *\|", text) is None


def test_every_row_is_of_a_profile_and_has_one_name() -> None:
    assert {row.profile for row in ROWS} == set(PROFILES)
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert all(isinstance(row, Row) and row.title for row in ROWS)
