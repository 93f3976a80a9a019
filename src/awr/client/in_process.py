"""Calling AWR in this very process: the operations by their names, answered as `awr --json` would."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from awr.client.files import write_private
from awr.client.transport import STDERR, STDOUT, Answer, Receipts
from awr.errors import fault_of, io_error
from awr.ids import Clock
from awr.operations.calling import call_plain
from awr.operations.registry import operation_named

__all__ = ["InProcessTransport"]


class InProcessTransport:
    """The AWR that is installed beside the caller, bound by its version."""

    def identity(self) -> dict[str, str]:
        """Return which AWR this is."""
        return {"transport": "in_process", "version": version("awr")}

    def verify(self) -> None:
        """Do nothing: code that is loaded does not change under its process."""

    def call(
        self, operation: str, arguments: Mapping[str, Any], *, project: Path, receipts: Receipts, clock: Clock
    ) -> Answer:
        """Call one operation once. An exception that no operation announces leaves the outcome unknown."""
        receipts.begin({"operation": operation, "arguments": dict(arguments), **self.identity()}, at=clock())
        out, known = b"", True
        error: dict[str, Any] | None
        try:
            answer = call_plain(operation_named(operation), arguments, folder=project)
            out, error = b"" if answer.value is None else msgspec.json.encode(answer.value) + b"\n", answer.error
        except OSError as refused:
            error = io_error(refused).report()
        except Exception as fault:
            error, known = fault_of(fault).report(), False
        write_private(receipts.folder / STDOUT, out)
        write_private(receipts.folder / STDERR, b"" if error is None else msgspec.json.encode(error) + b"\n")
        receipts.finish(known=known, exit_code=0 if error is None else 1, at=clock())
        return receipts.answer(known=known)
