"""Find and read the Python package index that this machine's pip uses.

``python -m tools.package_index`` prints its address. No host is named here: the address comes from
``PIP_INDEX_URL``, else from pip's configuration, else from pip itself.
"""

from __future__ import annotations

import ast
import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

ATTEMPTS = 5
TIMEOUT_SECONDS = 60
MAX_BYTES = 64 * 2**20
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
PIP_BUNDLE = "from pip._vendor import certifi; print(certifi.where())"
PIP_DEFAULT = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"


class IndexFailure(Exception):
    """The package index, or a file in it, cannot be had."""


class Page(NamedTuple):
    """An answer: its final address, its content type and its body."""

    url: str
    content_type: str
    body: bytes


def index_url() -> str:
    """Return the address of the index that pip is configured to use."""
    url = pip_setting("index-url") or _ask_python("-c", PIP_DEFAULT)
    if not url:
        raise IndexFailure("this Python has no pip that knows a package index: set PIP_INDEX_URL")
    return url.rstrip("/")


def pip_setting(name: str) -> str:
    """Read a setting the way pip does: its environment variable, then its configuration files."""
    variable = "PIP_" + name.upper().replace("-", "_")
    if chosen := os.environ.get(variable):
        return chosen
    # "pip config get" looks into one of the files only.
    lines = _ask_python("-m", "pip", "config", "list").splitlines()
    configured = dict(line.split("=", 1) for line in lines)
    return str(ast.literal_eval(configured.get(f"global.{name}", "''")))


def file_url(project: str, filename: str) -> str:
    """Look a file up in the project's page of the index."""
    index = index_url()
    links = links_in(get(f"{index}/{project}/", ACCEPT))
    if filename not in links:
        raise IndexFailure(f"the package index has no {filename} among its {len(links)} files of {project}")
    link, place = urllib.parse.urlsplit(links[filename]), urllib.parse.urlsplit(index).netloc
    if link.netloc == place.rpartition("@")[2]:
        link = link._replace(netloc=place)  # a private index wants its credentials for its files too
    return link.geturl()


def links_in(page: Page) -> dict[str, str]:
    """List the files of a project's page, JSON (PEP 691) or HTML (PEP 503): name to absolute address."""
    if page.content_type.endswith("json"):
        links = {file["filename"]: file["url"] for file in json.loads(page.body)["files"]}
    else:
        anchors = _Anchors()
        anchors.feed(page.body.decode())
        links = anchors.links
    return {name: urllib.parse.urljoin(page.url, link) for name, link in links.items()}


class _Anchors(HTMLParser):
    """The ``href`` of each ``<a>``, by the file name at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect one link."""
        href = dict(attrs).get("href")
        if tag == "a" and href:
            name = urllib.parse.urlsplit(href).path.rpartition("/")[2]
            self.links[urllib.parse.unquote(name)] = urllib.parse.urldefrag(href).url


def get(url: str, accept: str = "*/*", pauses: Sequence[float] = (1, 2, 4, 8)) -> Page:
    """Fetch one address; after a failure that may pass, pause (seconds) and try again."""
    address, authorization = _split_credentials(url)
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise IndexFailure(f"only http and https are fetched, not {address}")
    request = urllib.request.Request(address, headers={"Accept": accept})  # noqa: S310 - checked above
    if authorization:
        request.add_unredirected_header("Authorization", authorization)
    trust = _trust()
    left = list(pauses)
    while True:
        try:
            return _get_once(request, trust)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            if not left or not _may_pass(error):
                raise IndexFailure(f"cannot fetch {address}: {error}") from error
        time.sleep(left.pop(0))


def _get_once(request: urllib.request.Request, trust: ssl.SSLContext) -> Page:
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=trust) as answer:  # noqa: S310 - by get
        body = answer.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise IndexFailure(f"the answer of {request.full_url} is larger than {MAX_BYTES} bytes")
        return Page(answer.url, answer.headers.get_content_type(), body)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code in (408, 425, 429) or error.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR
    return not isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError)


def _trust() -> ssl.SSLContext:
    """Trust what pip trusts: its setting, else ``SSL_CERT_FILE``, else the system and pip's own bundle."""
    chosen = pip_setting("cert")
    if chosen:
        is_folder = Path(chosen).is_dir()
        return ssl.create_default_context(
            cafile=None if is_folder else chosen, capath=chosen if is_folder else None
        )
    context = ssl.create_default_context()
    bundle = "" if "SSL_CERT_FILE" in os.environ else _ask_python("-c", PIP_BUNDLE)
    if bundle:
        context.load_verify_locations(bundle)
    return context


def _split_credentials(url: str) -> tuple[str, str]:
    """Take ``user:password@`` out of an address, so that no message can show it."""
    parts = urllib.parse.urlsplit(url)
    credentials, _, host = parts.netloc.rpartition("@")
    if not credentials:
        return url, ""
    token = base64.b64encode(urllib.parse.unquote(credentials).encode()).decode()
    return parts._replace(netloc=host).geturl(), f"Basic {token}"


def _ask_python(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def main() -> None:
    """Print the address of the index."""
    print(index_url())


if __name__ == "__main__":
    main()
