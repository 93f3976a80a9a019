"""An operation and plain arguments as the words of its command."""

from __future__ import annotations

from typing import Any

import pytest

from awr.operations.registry import operation_named
from awr.operations.words import command_words


@pytest.mark.parametrize(
    ("name", "arguments", "words", "body"),
    [
        ("project.status", {"view": "summary", "work": ["a", "b"]}, "status --view summary --work a --work b", None),
        (
            "session.start",
            {"agent": "a", "claim": True, "work": "w"},
            "session start --agent a --work w --claim",
            None,
        ),
        ("session.start", {"agent": "a", "claim": False, "work": None}, "session start --agent a", None),
        ("session.resume", {"agent": "a", "session": "S"}, "session resume --agent a --from-session S", None),
        ("work.show", {"work": "w"}, "work show -- w", None),
        ("compaction.observe", {"session": "S"}, "session compaction observe --input FILE", {"session": "S"}),
        (
            "transition.complete",
            {"work": "w", "reason": "r", "completion": {"version": 1}},
            "work complete --reason r --input FILE -- w",
            {"version": 1},
        ),
        ("event.append", {"payload": {"a": 1}}, 'event append --payload {"a":1}', None),
    ],
)
def test_arguments_become_the_words_that_a_person_would_type(
    name: str, arguments: dict[str, Any], words: str, body: dict[str, Any] | None
) -> None:
    found, written = command_words(operation_named(name), arguments, input_path="FILE")
    assert (found, written) == (words.split(), body)


def test_a_word_that_looks_like_an_option_stays_an_argument() -> None:
    found, _ = command_words(operation_named("work.show"), {"work": "--json"}, input_path="FILE")
    assert found == ["work", "show", "--", "--json"]
