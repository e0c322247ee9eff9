from __future__ import annotations

import base64
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tools import package_index
from tools.package_index import IndexFailure, Page, file_url, get, index_url, links_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JSON = "application/vnd.pypi.simple.v1+json"


class Server(HTTPServer):
    """Gives the answers put into it: path to (status, content type, body), several are given in turn."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[tuple[int, str, bytes]]] = {}
        self.seen: list[tuple[str, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["Authorization"]))
        answers = self.server.answers[self.path]
        status, content_type, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_the_index_is_the_one_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple/")
    assert index_url() == "https://index.example/simple"


def test_the_index_is_else_the_configured_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://mirror.example/simple\n")
    assert index_url() == "https://mirror.example/simple"


def test_the_index_is_at_last_the_one_that_pip_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "pip_setting", lambda _name: "")
    assert index_url().startswith("https://")


@pytest.mark.parametrize("content_type", [JSON, "text/html"])
def test_files_are_found_in_json_and_in_html_pages(
    server: Server, monkeypatch: pytest.MonkeyPatch, content_type: str
) -> None:
    body = {
        JSON: b'{"files": [{"filename": "a_b-1.tar.gz", "url": "../../files/a_b-1.tar.gz"}]}',
        "text/html": b'<html><a href="../../files/a_b-1.tar.gz#sha256=00">a_b-1.tar.gz</a><a name="x">y</a>',
    }[content_type]
    server.answers["/simple/a-b/"] = [(200, content_type, body)]
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    assert file_url("a-b", "a_b-1.tar.gz") == f"{server.url}/files/a_b-1.tar.gz"
    with pytest.raises(IndexFailure, match=r"no a_b-2\.tar\.gz among its 1 files of a-b"):
        file_url("a-b", "a_b-2.tar.gz")


def test_an_absolute_link_leads_away_from_the_index() -> None:
    page = Page(
        "https://index.example/simple/a/", "text/html", b'<A HREF="https://files.example/x/a-1%2B0.whl">'
    )
    assert links_in(page) == {"a-1+0.whl": "https://files.example/x/a-1%2B0.whl"}


def test_credentials_go_to_the_index_and_its_files_but_into_no_message(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = b'<a href="/files/a-1.tar.gz">a</a><a href="http://files.example/a-2.tar.gz">a</a>'
    server.answers["/simple/a/"] = [(200, "text/html", page)]
    server.answers["/files/a-1.tar.gz"] = [(403, "text/plain", b"")]
    monkeypatch.setenv("PIP_INDEX_URL", server.url.replace("//", "//me:s%40cret@") + "/simple")
    with pytest.raises(IndexFailure, match="403") as failure:
        get(file_url("a", "a-1.tar.gz"))
    assert "cret" not in str(failure.value)
    token = "Basic " + base64.b64encode(b"me:s@cret").decode()
    assert server.seen == [("/simple/a/", token), ("/files/a-1.tar.gz", token)]
    assert file_url("a", "a-2.tar.gz") == "http://files.example/a-2.tar.gz"


def test_what_may_pass_is_tried_again(server: Server) -> None:
    server.answers["/f"] = [(503, "text/plain", b""), (429, "text/plain", b""), (200, "text/plain", b"here")]
    assert get(f"{server.url}/f", pauses=(0, 0)).body == b"here"
    server.answers["/g"] = [(503, "text/plain", b"")]
    with pytest.raises(IndexFailure, match="503"):
        get(f"{server.url}/g", pauses=(0, 0))
    assert [path for path, _ in server.seen] == ["/f"] * 3 + ["/g"] * 3


def test_what_will_not_pass_is_not_tried_again(server: Server) -> None:
    server.answers["/gone"] = [(404, "text/plain", b"")]
    with pytest.raises(IndexFailure, match="404"):
        get(f"{server.url}/gone", pauses=(0, 0))
    assert len(server.seen) == 1


def test_an_answer_without_end_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "MAX_BYTES", 10)
    server.answers["/f"] = [(200, "text/plain", b"x" * 11)]
    with pytest.raises(IndexFailure, match="larger than 10 bytes"):
        get(f"{server.url}/f")


def test_only_the_web_is_fetched() -> None:
    with pytest.raises(IndexFailure, match="only http and https"):
        get("file:///etc/hosts")
