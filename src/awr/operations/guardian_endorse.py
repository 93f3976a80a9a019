"""An operator's endorsement: the only way in which trust goes up, recorded with who gave it and why.

It needs somebody at a terminal, or the operator's token, and no agent's transport reaches it. An agent with a shell
as the same user is not kept from it by that.
"""

from __future__ import annotations

import hmac
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from awr.domain.lineage import Endorsement, validate_endorsement
from awr.errors import InvalidInput, NotFound, RuleViolation
from awr.guardian.journaling import journal_endorsement
from awr.guardian.signature import secret_from_file
from awr.guardian.store import Store
from awr.guardian.trust_file import default_place
from awr.ids import new_id, system_clock
from awr.operations.fields import described
from awr.operations.guardian import AcsSession, DatabaseFile, database_path

__all__ = ["TOKEN_FILE", "TOKEN_VARIABLE", "EndorseRequest", "EndorseResult", "endorse"]

#: The operator's token: a file in the operator's place, and the variable in which it is given without a terminal.
TOKEN_FILE = "operator.token"  # noqa: S105
TOKEN_VARIABLE = "AWR_OPERATOR_TOKEN"  # noqa: S105


class EndorseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: AcsSession
    who: Annotated[str, described("Who looked at the data.")]
    why: Annotated[str, described("Why they may be trusted.")]
    data: Annotated[
        tuple[str, ...], described("The provenance id of data that were looked at; may be repeated.", option="--data")
    ] = ()
    all: Annotated[bool | None, described("Endorse everything that the session has recorded until now.")] = None
    trust: Annotated[Literal["trusted", "unknown"], described("What the data are raised to.")] = "trusted"
    accept: Annotated[bool | None, described("Record it; left out, it is only shown what would be.")] = None
    database: DatabaseFile = None


class EndorseResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was endorsed, or would be. `number` counts a session's endorsements; None while nothing is recorded."""

    ok: Literal[True] = True
    recorded: bool
    session_id: str
    number: int | None
    endorsed: int
    trust: str
    confirmed_by: Literal["terminal", "token"] | None


def endorse(root: Path, request: EndorseRequest) -> EndorseResult:
    """Raise the trust of named data of one session, for all that derives from them as well.

    Raise NotFound for a session that is not there, InvalidInput for data that it does not have, and RuleViolation
    where nobody is at a terminal and the operator's token is not given.
    """
    if bool(request.data) == bool(request.all):
        raise InvalidInput(
            "an endorsement names data, or all of them",
            got="both" if request.data else "neither",
            expected="--data ID for each piece of data that was looked at, or --all",
            next_step="run awr guardian show to see the session",
        )
    path = database_path(root, request.database)
    if not path.is_file():
        raise NotFound(
            "there is no Guardian's database here",
            expected="the database that the Guardian records in",
            next_step="give --database FILE",
        )
    store = Store.open(path, now=system_clock(), create=False)
    try:
        with store.database.transaction("IMMEDIATE"):
            session = store.session(request.session)
            if session is None:
                raise NotFound(
                    "the Guardian has no such session",
                    expected="the id of a session, exactly as its client writes it",
                    next_step="run awr guardian sessions to see them",
                )
            known = store.provenance_ids(session)
            chosen = known if request.all else tuple(dict.fromkeys(request.data))
            unknown = set(chosen) - set(known)
            if unknown:
                raise InvalidInput(
                    "an endorsement names data that the session does not have",
                    got=f"{len(unknown)} unknown ids",
                    expected="provenance ids of the session",
                    next_step="name data that the session has already recorded",
                )
            endorsement = Endorsement(
                provenance_ids=chosen,
                trust=request.trust,
                who=request.who,
                why=request.why,
                scope="session" if request.all else "named",
            )
            validate_endorsement(endorsement)
            number = None
            confirmed = None
            if request.accept:
                confirmed = _confirmed()
                now = system_clock()
                number = store.add_endorsement(session, endorsement, confirmed_by=confirmed, now=now)
                journal_endorsement(
                    store, session, endorsement, number=number, confirmed_by=confirmed, now=now, make_id=new_id
                )
    finally:
        store.close()
    return EndorseResult(
        recorded=number is not None,
        session_id=session.session_id,
        number=number,
        endorsed=len(chosen),
        trust=request.trust,
        confirmed_by=confirmed,
    )


def _confirmed() -> Literal["terminal", "token"]:
    """Return how the operator is known to be one. Raise RuleViolation."""
    if sys.stdin is not None and sys.stdin.isatty():
        return "terminal"
    given = os.environ.get(TOKEN_VARIABLE)
    if given is not None:
        token = secret_from_file(default_place(os.environ).with_name(TOKEN_FILE))
        if hmac.compare_digest(token, given.encode()):
            return "token"
    raise RuleViolation(
        "nobody is at a terminal, and the operator's token is not given",
        got="no token" if given is None else "another token",
        expected=f"a terminal, or {TOKEN_VARIABLE} with the content of {TOKEN_FILE} in the operator's place",
        next_step="run the command in a terminal",
    )
