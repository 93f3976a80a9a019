"""What a signed and durably chained ACS request costs over HTTP, against a ping, which is neither.

The Guardian is a process of its own with a database of its own. The clients are raw: they send requests that were
signed before, and read an answer. They share the cores with the server. At half of the budget's rate, requests leave
by a timetable and the time is counted from when one should have left, so that a slow answer delays no later question.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from awr.domain.lineage import Datum
from awr.guardian.entries import step_bytes, step_text
from awr.guardian.envelope import rfc3339
from awr.guardian.signature import Keys, sign
from awr.guardian.store import Appended, Store
from bench.measure import Figures, print_figures

SECRET = b"a secret of the bench, 32 bytes or more"
KEYS = Keys({"default": SECRET})
CLIENTS = (1, 4, 16)
REQUESTS = 2400
RUNS = 3
BUDGET_RATE = 1000
LONG = 100_000
PAYLOAD = {
    "tool": {"name": "Bash"},
    "arguments": {
        "command": {"value": "echo " + "x" * 200, "provenance": {"provenance_id": "p-1", "origin": "agent_generated"}}
    },
}
MEANING = (
    "A signed request is verified, checked for replay, chained, committed with synchronous=FULL and answered under\n"
    "a signature; the ratio says what of a ping's rate is left of that. It does not say how fast your disk is: one\n"
    "whose fsync takes longer makes a single client wait as long, and many wait together for one."
)


class Client:
    """One connection and one session's requests."""

    def __init__(self, address: tuple[str, int], session_id: str) -> None:
        self.connection = socket.create_connection(address)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.connection.makefile("rb")
        self.session_id = session_id

    def close(self) -> None:
        """Leave."""
        self.reader.close()
        self.connection.close()

    def request(self, method: str, payload: Any, *, signed: bool = True) -> bytes:
        """Return the bytes of one request."""
        request_id = str(uuid.uuid4())
        message = {
            "jsonrpc": "2.0",
            "method": method,
            "id": request_id,
            "params": {
                "acs_version": "0.1.0",
                "request_id": request_id,
                "timestamp": rfc3339(time.time_ns() // 1_000_000),
                "metadata": {"agent_id": "bench", "session_id": self.session_id},
                "payload": payload,
            },
        }
        if signed:
            sign(message, place="params", keys=KEYS, key_id="default", session_id=self.session_id)
        body = json.dumps(message).encode()
        head = f"POST /acs HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def exchange(self, request: bytes) -> bytes:
        """Send one request and return the body of its answer."""
        self.connection.sendall(request)
        length = 0
        while (line := self.reader.readline()) != b"\r\n":
            assert line, "the server has closed the connection"
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return self.reader.read(length)

    def begin(self) -> None:
        """Shake hands."""
        hello = {
            "acs_versions_supported": ["0.1.0"],
            "methods_implemented": ["steps/toolCallRequest", "system/ping"],
            "transports_supported": ["http"],
            "provenance_producer": "deterministic",
        }
        assert b"negotiated_version" in self.exchange(self.request("handshake/hello", hello))


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """Run a Guardian as a process and return where it listens."""
    secret = folder / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "awr", "guardian", "serve", "--listen", "127.0.0.1:0"),
            *("--secret-file", str(secret), "--database", str(folder / "guardian.db")),
        ],
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        host, _, port = process.stderr.readline().decode().rpartition("/acs")[0].rpartition("/")[2].partition(":")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield host, int(port)
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def together(
    clients: list[Client], bodies: list[list[bytes]], *, every: float | None = None
) -> tuple[float, list[float]]:
    """Let every client send its requests, and return the seconds it took and each request's milliseconds.

    `every` is the time between two requests of all the clients together; None sends as fast as answers come.
    """
    times: list[list[float]] = [[] for _ in clients]
    ready = threading.Barrier(len(clients) + 1)
    began = 0.0

    def work(place: int) -> None:
        ready.wait()
        for number, body in enumerate(bodies[place]):
            due = time.perf_counter()
            if every is not None:
                due = began + (number * len(clients) + place) * every
                time.sleep(max(0.0, due - time.perf_counter()))
            answer = clients[place].exchange(body)
            times[place].append((time.perf_counter() - due) * 1000)
            assert b'"decision":"allow"' in answer, answer[:300]

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(clients))]
    for thread in threads:
        thread.start()
    began = time.perf_counter() + 0.05
    ready.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start, [one for some in times for one in some]


def signed_bodies(clients: list[Client], number: int) -> list[list[bytes]]:
    """Return requests that are signed now, shared out among the clients."""
    each = number // len(clients)
    return [[client.request("steps/toolCallRequest", PAYLOAD) for _ in range(each)] for client in clients]


def rates(clients: list[Client]) -> tuple[Figures, Figures, Figures, list[float]]:
    """Measure steps and pings in turns. Return both rates, their ratios, and the steps' milliseconds."""
    steps, pings, times = [], [], []
    for run in range(RUNS + 1):
        seconds, found = together(clients, signed_bodies(clients, REQUESTS))
        ping = [[client.request("system/ping", {}, signed=False)] * (REQUESTS // len(clients)) for client in clients]
        bare, _ = together(clients, ping)
        if run:
            steps.append(len(found) / seconds)
            pings.append(len(found) / bare)
            times += found
    ratio = Figures([one / other for one, other in zip(steps, pings, strict=True)])
    return Figures(steps), Figures(pings), ratio, times


def lengthen(
    path: Path, session_id: str, *, entries: int, carrying: Callable[[int], tuple[Datum, ...]] = lambda _: ()
) -> None:
    """Give a session many entries in one transaction, which is how nobody else may write them.

    `carrying` gives the data of each, which derive from nothing.
    """
    store = Store.open(path, now=0, create=False)
    with store.database.transaction("IMMEDIATE"):
        for number in range(entries):
            session = store.session(session_id)
            assert session is not None
            step_id = step_bytes(str(uuid.UUID(int=number)))
            known = carrying(number)
            content = {"step_id": step_text(step_id), "step_type": "steps/toolCallRequest"}
            store.append(
                session,
                Appended(
                    step_id=step_id,
                    step_type="steps/toolCallRequest",
                    entry=json.dumps(content, separators=(",", ":")).encode(),
                    facts={},
                    provenance=known,
                    depths={one.provenance_id: 0 for one in known},
                    summary={},
                    intent=None,
                    decision="allow",
                    reason_codes=(),
                    findings=(),
                    seals=False,
                    subagent=None,
                ),
                now=0,
            )
    store.close()


def main() -> None:
    """Print the rate for several clients, the waiting at half of the budget, and the same in a long session."""
    with tempfile.TemporaryDirectory(prefix="awr-bench-") as name:
        folder = Path(name)
        with served(folder) as address:
            for number in CLIENTS:
                clients = [Client(address, str(uuid.uuid4())) for _ in range(number)]
                for client in clients:
                    client.begin()
                steps, pings, ratio, times = rates(clients)
                print_figures(
                    f"acs requests, {number} clients",
                    unit="requests/s",
                    measured=steps,
                    baseline=pings,
                    ratio=ratio,
                    budget=">= 1000/s",
                )
                _print_times(times)
                if number == CLIENTS[1]:
                    rate = BUDGET_RATE / 2
                    _, times = together(clients, signed_bodies(clients, int(rate * 6)), every=1 / rate)
                    print(f"acs requests, {rate:.0f} a second by a timetable", end="")
                    _print_times(times, budget="p99 <= 20 ms")
                for client in clients:
                    client.close()
            names = [str(uuid.uuid4()), str(uuid.uuid4())]
            for name in names:
                client = Client(address, name)
                client.begin()
                client.close()
            lengthen(folder / "guardian.db", names[1], entries=LONG)
            # The server has closed what was idle for so long.
            short, long = (Client(address, name) for name in names)
            measured, baseline, ratio = _compared(long, short)
            print_figures(
                f"acs requests, session of {LONG:,}",
                unit="requests/s",
                measured=measured,
                baseline=baseline,
                ratio=ratio,
                budget="flat: 1",
            )
            short.close()
            long.close()
    print(MEANING)


def _compared(long: Client, short: Client) -> tuple[Figures, Figures, Figures]:
    found: list[tuple[float, float]] = []
    for run in range(RUNS + 3):
        pair = [together([each], signed_bodies([each], REQUESTS // 4))[0] for each in (long, short)]
        if run:
            found.append((REQUESTS // 4 / pair[0], REQUESTS // 4 / pair[1]))
    one, other = Figures([pair[0] for pair in found]), Figures([pair[1] for pair in found])
    return one, other, Figures([first / second for first, second in found])


def _print_times(times: list[float], *, budget: str = "") -> None:
    ordered = sorted(times)
    share = {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * part))] for name, part in (("p50", 0.5), ("p99", 0.99))
    }
    print(f"    p50 {share['p50']:.1f} ms, p99 {share['p99']:.1f} ms" + (f"   budget {budget}" if budget else ""))


if __name__ == "__main__":
    main()
