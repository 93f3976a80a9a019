"""Starting and ending a Guardian that listens on HTTP."""

from __future__ import annotations

import asyncio
import logging
import sys

from awr.surfaces.acs.desk import HTTP, Setup, shared_desk
from awr.surfaces.acs.door import ACS_PATH, GuardianApplication, GuardianDoor
from awr.surfaces.acs.notices import Notices
from awr.surfaces.http.listening import address_of, listen_on, server_for
from awr.surfaces.http.log import Faults, Log

__all__ = ["serve"]


def serve(setup: Setup, *, listen: str) -> None:
    """Answer ACS requests on HTTP until a signal ends it; what is under way then is answered.

    Standard error gets one line that says where, and then the log. Raise what `listen_on` and `shared_desk` raise;
    nothing listens then.
    """
    log = Log(sys.stderr)
    notices = Notices(log)
    with shared_desk(setup, transports=HTTP, notices=notices) as desk, listen_on(listen) as listener:
        server = server_for(GuardianApplication(GuardianDoor(desk), notices))
        # Every library's words go through one handler, which repeats none of them.
        logging.basicConfig(handlers=[Faults(log)], level=logging.WARNING, force=True)
        with server.stopped_by_signals():
            sys.stderr.write(f"AWR Guardian listening at http://{address_of(listener)}{ACS_PATH}\n")
            sys.stderr.flush()
            asyncio.run(server.serve(sockets=[listener]))
