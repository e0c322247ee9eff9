"""A server that speaks S3's protocol, and is not ours: run by the fixture, in the environment of the oracles.

moto looks at a condition and writes in two steps. S3 does both at once, so writes go one by one here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKETS = ("lake", "other", "with.dots")


class OneWriteAtATime:
    def __init__(self, app: Any) -> None:
        self.app = app
        self.lock = threading.Lock()

    def __call__(self, request: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if request["REQUEST_METHOD"] != "PUT":
            answer: Iterable[bytes] = self.app(request, start_response)
            return answer
        with self.lock:
            return list(self.app(request, start_response))


def main() -> None:
    server = make_server(
        "127.0.0.1", 0, OneWriteAtATime(DomainDispatcherApplication(create_backend_app)), threaded=True
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)  # noqa: T201  # the answer that the fixture waits for
    sys.stdin.read()  # until the fixture is gone, however it went


if __name__ == "__main__":
    main()
