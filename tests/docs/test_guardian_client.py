"""The page about asking a Guardian names everything that a program may be told."""

from __future__ import annotations

from typing import get_args

import pytest

from awr.client.acs.audit import AuditRecord, Event
from awr.client.acs.modification import COMPOSITION, UNSUPPORTED
from awr.client.acs.outcome import Action, DecidedBy, FailureClass
from awr.client.acs.session import ALWAYS_BLOCK
from awr.client.acs.settings import Settings
from tests.docs.console import ROOT

PAGE = (ROOT / "docs" / "how-to" / "ask-a-guardian.md").read_text()


@pytest.mark.parametrize(
    "names",
    [
        AuditRecord.__struct_encode_fields__,
        get_args(Event),
        get_args(Action),
        get_args(DecidedBy),
        get_args(FailureClass),
        [str(int(code)) for code in ALWAYS_BLOCK],
        (COMPOSITION, UNSUPPORTED),
        [name for name in Settings.__struct_fields__ if name not in {"agent_id", "methods"}],
    ],
)
def test_every_name_is_on_the_page(names: list[str]) -> None:
    assert names
    assert [name for name in names if f"`{name}`" not in PAGE] == []
