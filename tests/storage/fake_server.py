"""A server of ours that answers what a test says: for what a real one does only on bad days."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

HANG_SECONDS = 3


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """``status`` 0 closes the connection without an answer, -1 says nothing for a while first."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    applies: bool = False
    """Whether a PUT takes effect, whatever the answer says."""


class FakeServer:
    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        self.files: dict[str, tuple[bytes, dict[str, str]]] = {}

    def sent(self, method: str) -> int:
        return sum(request.method == method for request in self.requests)

    def answer(self, request: Request) -> Answer:
        """The next scripted answer to a GET or PUT; HEAD, and whatever is not scripted, is answered truly."""
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers and request.method != "HEAD" else None
        path = request.path.partition("?")[0]
        if request.method == "PUT" and (answer is None or answer.applies):
            kept = {name: value for name, value in request.headers.items() if name.startswith("x-amz-meta-")}
            self.files[path] = (request.body, kept)
        if answer is not None:
            return answer
        if request.method == "PUT":
            return Answer(headers={"ETag": '"fresh"'})
        if path not in self.files:
            return Answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        body, kept = self.files[path]
        return Answer(
            200, body, {"ETag": '"stored"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", **kept}
        )


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = fake.answer(Request(self.command, self.path, headers, body))
            if answer.status <= 0:
                if answer.status < 0:
                    stopped.wait(HANG_SECONDS)
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    stopped = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = FakeServer(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()
