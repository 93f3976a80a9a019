"""What a host may call a conversation, and what it may say of one."""

from __future__ import annotations

from typing import get_args

import pytest

from awr.domain.binding import MAX_EXTERNAL_BYTES, HostName, Progress, agent_of, external_id
from awr.domain.session import MAX_LABEL_BYTES, validate_labels
from awr.errors import InvalidInput


def said(*loops: str, digest: str | None = None, clear: bool = False, next_action: str = "Go") -> Progress:
    return Progress.checked(next_action=next_action, digest=digest, open_loops=loops, clear_open_loops=clear)


@pytest.mark.parametrize("text", ["c", "codex:0198-ab", "é" * 256, "a b"])
def test_an_id_of_up_to_512_bytes_is_taken_as_it_is(text: str) -> None:
    assert external_id(text) == text


@pytest.mark.parametrize("text", ["", "  ", "x" * 513, "é" * 257, "a\nb", "a\x00", "a\x1b[31m", "\udcff"])
def test_a_blank_long_or_controlling_id_is_refused_and_not_echoed(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        external_id(text)
    assert not text.strip() or text not in str(caught.value.report())


def test_the_agent_of_the_longest_conversation_of_every_client_is_a_label() -> None:
    for client in get_args(HostName):
        agent = agent_of(client, "x" * MAX_EXTERNAL_BYTES)
        assert len(agent) <= MAX_LABEL_BYTES
        validate_labels(agent_id=agent, provider=client, model="m")


def test_open_loops_that_are_neither_given_nor_cleared_are_left_as_they_were() -> None:
    assert said().open_loops is None
    assert said("one", "two").open_loops == ("one", "two")
    assert said(clear=True).open_loops == ()


def test_open_loops_that_are_given_and_cleared_are_refused() -> None:
    with pytest.raises(InvalidInput, match="given or cleared"):
        said("one", clear=True)


def test_blank_texts_are_refused() -> None:
    for bad in ({"next_action": " "}, {"digest": ""}):
        with pytest.raises(InvalidInput, match="must not be blank"):
            said(**bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="open_loops must not be blank"):
        said("one", "\t")
