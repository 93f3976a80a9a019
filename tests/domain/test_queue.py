"""Urgent work first, then the higher score, then the key."""

from __future__ import annotations

from awr.domain.queue import queue_order
from awr.domain.work import WorkItem


def order(*given: tuple[str, str | None, int | None]) -> list[str]:
    items = [
        WorkItem(external_key=key, title=key, status="ready", line=1, priority=priority, score=score)
        for key, priority, score in given
    ]
    return [item.external_key for item in sorted(items, key=queue_order)]


def test_words_for_a_priority_rank_by_their_meaning() -> None:
    assert order(("a", "low", None), ("b", "Medium", None), ("c", " high ", None), ("d", "urgent", None)) == [*"dcba"]


def test_numbers_rank_by_their_value() -> None:
    assert order(("a", "P10", None), ("b", "p2", None), ("c", "0", None)) == [*"cba"]


def test_no_priority_sorts_last_and_an_unknown_one_before_it() -> None:
    assert order(("a", None, 9), ("b", "someday", None), ("c", "P9", None), ("d", " ", None)) == [*"cbad"]


def test_the_higher_score_comes_first_within_a_priority_and_then_the_key() -> None:
    assert order(("b", "high", 1), ("a", "high", 1), ("c", "high", 5), ("d", "high", None)) == [*"cabd"]
