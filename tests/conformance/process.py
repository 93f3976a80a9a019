"""A Guardian as a process of its own, spoken to over HTTP and nothing else."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.acs import SECRET
from tests.support.service import DEADLINE, eventually

__all__ = ["KEY_ID", "Served", "served"]

#: The label that the external probe uses when it is given none.
KEY_ID = "conformance"
#: The program that serves.
PROGRAM = ("-m", "awr", "guardian", "serve")


class Served:
    """One Guardian's process."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process = process
        self.url = url
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=DEADLINE)
        self._path = parts.path

    def send(self, body: bytes) -> bytes:
        """Post a body and return the answer to it. Whatever it says, HTTP's status is 200."""
        self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        assert response.status == 200, (response.status, answer[:200])
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Run a Guardian over the database of a folder until the block ends, when it is killed without a warning."""
    secret = folder / "secret"
    if not secret.exists():
        secret.touch(mode=0o600)
        secret.write_bytes(SECRET + b"\n")
    err = folder / f"guardian-{len(list(folder.glob('guardian-*.err')))}.err"
    command = [
        *(sys.executable, *PROGRAM, "--listen", "127.0.0.1:0", "--secret-file", str(secret)),
        *("--key-id", KEY_ID, "--database", str(folder / "acs.db")),
    ]
    with err.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )

    def first_line() -> str | None:
        text = err.read_text()
        assert process.poll() is None, text
        return text.partition("\n")[0] if "\n" in text else None

    found: Served | None = None
    try:
        line = eventually(first_line)
        assert line.startswith("AWR Guardian listening at http://127.0.0.1:"), line
        assert line.endswith("/acs"), line
        found = Served(process, line.rpartition(" ")[2])
        yield found
        assert process.poll() is None, err.read_text()
    finally:
        if found is not None:
            found.close()
        process.kill()
        out, _ = process.communicate()
    assert out == b"", "standard output is not used"
    assert "Traceback" not in err.read_text(), err.read_text()
