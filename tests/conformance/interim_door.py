"""A door of its own process for these tests, with the command line of `awr guardian serve`, until that is there."""

from __future__ import annotations

import argparse
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from awr.guardian.guardian import Guardian
from awr.guardian.signature import Keys, secret_from_file
from awr.guardian.store import Store


def main() -> None:
    """Answer POST /acs until the process is ended."""
    parser = argparse.ArgumentParser()
    for name in ("listen", "secret-file", "key-id", "database"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    guardian = Guardian(
        Store.open(Path(arguments.database), now=0, create=True),
        keys=Keys({arguments.key_id: secret_from_file(Path(arguments.secret_file))}),
        transports=("http",),
    )

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = guardian.answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    host, _, port = arguments.listen.rpartition(":")
    server = HTTPServer((host, int(port)), Handler)
    sys.stderr.write(f"AWR Guardian listening at http://{host}:{server.server_port}/acs\n")
    sys.stderr.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
