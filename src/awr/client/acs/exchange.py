"""What passes between a session, which sends nothing, and a transport, which judges nothing."""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.client.acs.audit import AuditRecord
from awr.client.acs.outcome import Outcome

__all__ = ["Reply", "Request", "Settled", "Silence"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be sent, and until when its answer counts. `deadline` is of the monotonic clock, in seconds."""

    request_id: str
    method: str
    body: bytes
    began: float
    timeout_ms: int
    #: The chain's head that this request stated or would have.
    head: str | None = None

    @property
    def deadline(self) -> float:
        """The end of the one time that everything has: names, connection, sending, waiting, reading."""
        return self.began + self.timeout_ms / 1000


class Reply(msgspec.Struct, frozen=True):
    """What came: the body, and the status of HTTP where there is one."""

    body: bytes
    status: int | None = None


class Silence(msgspec.Struct, frozen=True):
    """Nothing came."""

    failure: Literal["timeout", "transport"]


class Settled(msgspec.Struct, frozen=True):
    """An outcome, and what has to be recorded before it is acted on."""

    outcome: Outcome
    records: tuple[AuditRecord, ...] = ()
