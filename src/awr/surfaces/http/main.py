"""Starting and ending the shared service."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec

from awr.errors import AwrError, io_error
from awr.surfaces.acs.desk import HTTP, Setup, shared_desk
from awr.surfaces.acs.door import GuardianDoor
from awr.surfaces.acs.notices import Notices
from awr.surfaces.http.app import Application
from awr.surfaces.http.backend import ManyProjects
from awr.surfaces.http.listening import Server, address_of, listen_on, server_for
from awr.surfaces.http.log import Faults, Log
from awr.surfaces.http.service import Service, load_service
from awr.surfaces.http.watch import Watch
from awr.surfaces.mcp.server import Gate, build_server

__all__ = ["serve", "serve_registry"]

#: How long a write that is under way may take to end once every request is answered or given up.
DRAIN_SECONDS = 60.0


def serve_registry(path: Path, *, listen: str) -> int:
    """Serve as `serve` does. Return 0 when a signal ended it, or 1 and one error report when it could not start."""
    try:
        serve(path, listen=listen)
    except AwrError as error:
        return _refused(error)
    except OSError as error:
        return _refused(io_error(error))
    return 0


def serve(path: Path, *, listen: str, guardian: Setup | None = None) -> None:
    """Serve the projects of a registry until a signal ends it, and a Guardian's door beside them where one is set up.

    Standard error gets one line that says where the service listens, and then its log. Raise what `load_service`,
    `shared_desk` and `listen_on` raise; nothing listens then.
    """
    service = load_service(path)
    log = Log(sys.stderr)
    watch = Watch(log)
    with ExitStack() as stack:
        door = None
        if guardian is not None:
            notices = Notices(log, count=watch.metrics.acs)
            door = GuardianDoor(stack.enter_context(shared_desk(guardian, transports=HTTP, notices=notices)))
        _serve(service, stack.enter_context(listen_on(listen)), door=door, log=log, watch=watch)


def _serve(service: Service, listener: socket.socket, *, door: GuardianDoor | None, log: Log, watch: Watch) -> None:
    gate = Gate()
    application = Application(service, build_server(ManyProjects(service, watch), gate), watch, door=door)
    server = server_for(application)
    # Every library's words go through one handler, which repeats none of them.
    logging.basicConfig(handlers=[Faults(log)], level=logging.WARNING, force=True)
    with server.stopped_by_signals():
        sys.stderr.write(f"AWR MCP listening at http://{address_of(listener)}/mcp\n")
        sys.stderr.flush()
        asyncio.run(_run(application, server, listener))
        gate.drain(DRAIN_SECONDS)


async def _run(application: Application, server: Server, listener: socket.socket) -> None:
    async with application.manager.run():
        await server.serve(sockets=[listener])


def _refused(error: AwrError) -> int:
    sys.stderr.write(msgspec.json.encode(error.report()).decode() + "\n")
    return 1
