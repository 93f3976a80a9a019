"""Counting tokens: exact, remembered, and never a reason to fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import quicktok  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from awr.context import tokens
from awr.context.tokens import MAX_ENTRIES, TokenCounter

EXACT = quicktok.get_encoding("o200k_base")
WORDS = st.sampled_from(
    ["Work", " r", "@r", " x", "'s", "[", "]", "##", "/", ",", " ", "  ", "\n", "\t", "é", "你好", "३", "1"]
)
NUMBERS = st.integers(min_value=0, max_value=10**12).map(str)


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_counted", {})


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch, nothing_known: None) -> list[str]:
    """Every text that the vocabulary is asked about."""
    asked: list[str] = []

    def count(piece: str) -> int:
        asked.append(piece)
        return int(EXACT.count(piece))

    monkeypatch.setattr(tokens, "_encoded_count", count)
    return asked


@given(st.lists(WORDS | NUMBERS, max_size=30).map("".join))
def test_a_count_is_exactly_that_of_the_whole_text(text: str) -> None:
    assert TokenCounter(None).count(text) == EXACT.count(text)


@given(st.text(max_size=60))
def test_any_unicode_text_is_counted_exactly(text: str) -> None:
    assert TokenCounter(None).count(text) == EXACT.count(text)


def test_every_group_of_three_digits_is_one_token() -> None:
    groups = [str(number).zfill(width) for width in (1, 2, 3) for number in range(10**width)]
    assert {EXACT.count(group) for group in groups} == {1}


def test_special_tokens_in_a_text_are_counted_as_the_text_they_are() -> None:
    assert TokenCounter(None).count("<|endoftext|>") == len(EXACT.encode_ordinary("<|endoftext|>")) > 1


def test_a_text_is_encoded_once_and_then_known(encoded: list[str], tmp_path: Path) -> None:
    counter = TokenCounter(tmp_path / "cache")
    assert counter.count("Parse input") == counter.count("Parse input")
    assert encoded == ["Parse input"]


def test_only_the_number_of_a_revision_changes_and_nothing_is_encoded_again(encoded: list[str]) -> None:
    counter = TokenCounter(None)
    counter.count("Project demo [x] r9\nWork")
    before = list(encoded)
    assert counter.count("Project demo [x] r123456\nWork") == EXACT.count("Project demo [x] r123456\nWork")
    assert encoded == before


def test_counts_outlive_the_process_that_made_them(
    encoded: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = TokenCounter(tmp_path / "cache")
    counter.count("Parse input")
    counter.save()
    monkeypatch.setattr(tokens, "_counted", {})
    assert TokenCounter(tmp_path / "cache").count("Parse input") == 2
    assert encoded == ["Parse input"]


def test_a_warm_count_in_a_fresh_process_never_imports_the_tokenizer(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom awr.context.tokens import TokenCounter\n"
        f"counter = TokenCounter(Path({str(tmp_path / 'cache')!r}))\n"
        "print(counter.count('Parse input r7'), 'quicktok' in sys.modules)\ncounter.save()\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    ]
    assert runs == [["4", "True"], ["4", "False"]]


def test_counts_of_two_processes_are_both_kept(encoded: list[str], tmp_path: Path) -> None:
    one, other = TokenCounter(tmp_path), TokenCounter(tmp_path)
    one.count("First text")
    other.count("Second text")
    one.save()
    other.save()
    assert len(tokens._read(tmp_path)) == 2


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _fill(path: Path) -> None:
    path.write_bytes(b"\0" * 1000)


def _grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * (MAX_ENTRIES * 21))


def _link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [_cut, _flip, _fill, _grow, _link, _folder])
def test_a_damaged_file_is_counted_anew_and_never_believed(
    encoded: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    counter = TokenCounter(tmp_path)
    counter.count("Parse input")
    counter.save()
    damage(tmp_path / "o200k-counts")
    monkeypatch.setattr(tokens, "_counted", {})
    again = TokenCounter(tmp_path)
    assert again.count("Parse input") == 2
    assert encoded == ["Parse input", "Parse input"]
    again.save()


def test_the_file_is_bounded_and_keeps_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_known: None
) -> None:
    monkeypatch.setattr(tokens, "_encoded_count", lambda piece: len(piece))
    monkeypatch.setattr(tokens, "MAX_ENTRIES", 3)
    counter = TokenCounter(tmp_path)
    for text in ("one", "four", "fifth", "sixth!"):
        counter.count(text)
    counter.save()
    assert sorted(tokens._read(tmp_path).values()) == [4, 5, 6]


def test_the_file_holds_no_text_and_keeps_itself_out_of_git(encoded: list[str], tmp_path: Path) -> None:
    counter = TokenCounter(tmp_path)
    counter.count("Parse input")
    counter.save()
    assert b"Parse" not in (tmp_path / "o200k-counts").read_bytes()
    assert (tmp_path / ".gitignore").read_text() == "*\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "o200k-counts"]


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(encoded: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    counter = TokenCounter(tmp_path / "file")
    assert counter.count("Parse input") == 2
    counter.save()


def test_a_linked_folder_is_neither_read_nor_written(
    encoded: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "cache").symlink_to(real)
    counter = TokenCounter(tmp_path / "cache")
    counter.count("Parse input")
    counter.save()
    assert list(real.iterdir()) == []
