"""A small REST catalog for tests, written from the OpenAPI file, that fails on command.

What it holds is in plain dictionaries. Each request is written down before anything else happens; then the
first fault of the script that fits is taken out of it, and does its harm before or after the change.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import struct
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from lakeplane.errors import LakeplaneError, RequirementFailed
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata
from lakeplane.iceberg.new_table import creation
from lakeplane.iceberg.requirements import check
from lakeplane.iceberg.update_json import read_requirements, read_updates
from lakeplane.iceberg.view import apply_to_view, write_view
from lakeplane.model.partitioning import UNPARTITIONED, read_spec
from lakeplane.model.schema_json import read_schema
from lakeplane.model.sorting import UNSORTED, read_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeplane.iceberg.metadata import TableMetadata

ENDPOINTS = [
    f"{method} /v1/{{prefix}}/{path}"
    for method, path in (
        ("GET", "namespaces"),
        ("POST", "namespaces"),
        ("GET", "namespaces/{namespace}"),
        ("DELETE", "namespaces/{namespace}"),
        ("POST", "namespaces/{namespace}/properties"),
        ("POST", "namespaces/{namespace}/register"),
        ("POST", "transactions/commit"),
        ("POST", "tables/rename"),
        ("POST", "views/rename"),
        ("GET", "namespaces/{namespace}/tables/{table}/credentials"),
    )
] + [
    f"{method} /v1/{{prefix}}/namespaces/{{namespace}}/{kind}s{one}"
    for kind in ("table", "view")
    for method, one in (
        ("GET", ""),
        ("POST", ""),
        *((method, f"/{{{kind}}}") for method in ("GET", "HEAD", "POST", "DELETE")),
    )
]


class Seen(NamedTuple):
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Fault(NamedTuple):
    """What goes wrong with the next request that fits."""

    request: str
    """A pattern for the method and path."""
    status: int | None = None
    """To answer instead."""
    applied: int = 0
    """How often it is carried out nevertheless; the last answer is given, unless something else is."""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    body: bytes | None = None
    cut: bool = False
    """End the connection without an answer."""
    reset: bool = False
    """End it with a reset."""
    drip: bool = False
    """Send the answer in single bytes."""


class Refusal(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class Answer(NamedTuple):
    status: int
    document: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


class RestServer:
    """What the server holds, what it saw, and what is to go wrong."""

    def __init__(self) -> None:
        self.namespaces: dict[tuple[str, ...], dict[str, str]] = {}
        self.entries: dict[str, dict[tuple[str, ...], tuple[Any, str]]] = {"tables": {}, "views": {}}
        self.seen: list[Seen] = []
        self.script: list[Fault] = []
        self.config: dict[str, Any] = {"defaults": {}, "overrides": {}, "endpoints": ENDPOINTS}
        self.extras: dict[str, Any] = {}
        """Beside the metadata in the answers to loads: config, storage-credentials."""
        self.tokens: set[str] | None = None
        """The tokens that are good; None: all."""
        self.token_lifetime: int | None = 3600
        self.lock = threading.RLock()
        self.count = itertools.count()
        self.uri = ""

    def paths(self, *methods: str) -> list[str]:
        """What was asked, apart from the configuration."""
        return [
            str(each)
            for each in self.seen
            if each.path != "/v1/config" and each.method in (methods or (each.method,))
        ]

    def carry_out(self, request: Seen) -> Answer:
        """Do what a request asks for."""
        with self.lock:
            try:
                return self._route(request)
            except Refusal as refusal:
                model = {"message": str(refusal), "type": refusal.kind, "code": refusal.status}
                return Answer(refusal.status, {"error": model})

    def _route(self, request: Seen) -> Answer:
        path = request.path.removeprefix("/v1/").removeprefix("in/here/")
        parts = path.split("/")
        match request.method, [unquote(part) for part in parts]:
            case "GET", ["config"]:
                return Answer(200, self.config)
            case "POST", ["oauth", "tokens"]:
                return self._token(request)
            case _, ["namespaces", *rest]:
                return self._namespaces(request, rest)
            case "POST", ["transactions", "commit"]:
                return self._transaction(request.body["table-changes"])
            case "POST", ["tables" | "views" as kind, "rename"]:
                source, target = (_key(request.body[each]) for each in ("source", "destination"))
                self._require(kind, source)
                self._require_free(target)
                self.entries[kind][target] = self.entries[kind].pop(source)
                return Answer(204)
        raise Refusal(400, "BadRequestException", f"no route for {request}")

    def _token(self, request: Seen) -> Answer:
        token = f"fetched-token-{next(self.count)}"
        if self.tokens is not None:
            if request.body.get("client_secret") != "s3cr3t-of-client":
                document = {
                    "error": "invalid_client",
                    "error_description": f"no: {request.body.get('client_secret')}",
                }
                return Answer(401, document)
            self.tokens.add(token)
        lifetime = {} if self.token_lifetime is None else {"expires_in": self.token_lifetime}
        return Answer(200, {"access_token": token, "token_type": "bearer", **lifetime})

    def _namespaces(self, request: Seen, rest: list[str]) -> Answer:
        if not rest:
            return (
                self._list_namespaces(request)
                if request.method == "GET"
                else self._new_namespace(request.body)
            )
        namespace = tuple(rest[0].split("\x1f"))
        if namespace not in self.namespaces:
            raise _missing("Namespace", namespace)
        match request.method, rest[1:]:
            case "GET", []:
                return Answer(200, {"namespace": list(namespace), "properties": self.namespaces[namespace]})
            case "DELETE", []:
                if any(key[:-1] == namespace for each in self.entries.values() for key in each):
                    raise Refusal(409, "NamespaceNotEmptyException", "Namespace is not empty")
                del self.namespaces[namespace]
                return Answer(204)
            case "POST", ["properties"]:
                now = {**self.namespaces[namespace], **request.body["updates"]}
                gone = set(request.body["removals"])
                self.namespaces[namespace] = {key: value for key, value in now.items() if key not in gone}
                return Answer(200, {"updated": list(request.body["updates"]), "removed": [], "missing": []})
        return self._inside(request, namespace, rest[1:])

    def _list_namespaces(self, request: Seen) -> Answer:
        parent = tuple(filter(None, request.query.get("parent", "").split("\x1f")))
        if parent and parent not in self.namespaces:
            raise _missing("Namespace", parent)
        depth = len(parent)
        longer = {
            each[: depth + 1] for each in self.namespaces if each[:depth] == parent and len(each) > depth
        }
        return self._page(request, "namespaces", list(map(list, sorted(longer))))

    def _new_namespace(self, body: dict[str, Any]) -> Answer:
        key = tuple(body["namespace"])
        if key in self.namespaces:
            raise Refusal(409, "AlreadyExistsException", f"Namespace already exists: {key}")
        self.namespaces[key] = body.get("properties", {})
        return Answer(200, {"namespace": list(key), "properties": self.namespaces[key]})

    def _inside(self, request: Seen, namespace: tuple[str, ...], rest: list[str]) -> Answer:
        match request.method, rest:
            case "POST", ["register"]:
                return self._register(namespace, request.body)
            case "GET", ["tables" | "views" as kind]:
                keys = sorted(key for key in self.entries[kind] if key[:-1] == namespace)
                listed = [{"namespace": list(key[:-1]), "name": key[-1]} for key in keys]
                return self._page(request, "identifiers", listed)
            case "POST", ["tables"]:
                return self._create_table(namespace, request.body)
            case "POST", ["views"]:
                return self._create_view(namespace, request.body)
            case _, ["tables" | "views" as kind, name, *more]:
                return self._one(request, kind, (*namespace, name), more)
        raise Refusal(400, "BadRequestException", f"no route for {request}")

    def _register(self, namespace: tuple[str, ...], body: dict[str, Any]) -> Answer:
        key, at = (*namespace, body["name"]), body["metadata-location"]
        self._require_free(key)
        found = next((each for each, known in self.entries["tables"].values() if known == at), None)
        if found is None:
            raise _missing("Metadata file", key)
        self.entries["tables"][key] = (found, at)
        return self._load("tables", key)

    def _one(self, request: Seen, kind: str, key: tuple[str, ...], more: list[str]) -> Answer:
        match request.method, more:
            case "GET", ["credentials"]:
                self._require(kind, key)
                return Answer(200, {"storage-credentials": self.extras.get("storage-credentials", [])})
            case "POST", []:
                self._commit(kind, key, request.body)
                return self._load(kind, key, extras=False)
            case "GET" | "HEAD", []:
                self._require(kind, key)
                if kind == "tables" and request.headers.get("if-none-match") == self._etag(kind, key):
                    return Answer(304)
                return self._load(kind, key)
            case "DELETE", []:
                self._require(kind, key)
                del self.entries[kind][key]
                return Answer(204)
        raise Refusal(400, "BadRequestException", f"no route for {request}")

    def _page(self, request: Seen, key: str, found: list[Any]) -> Answer:
        if "pageToken" not in request.query:
            return Answer(200, {key: found})
        start, size = int(request.query["pageToken"] or 0), int(request.query.get("pageSize", 2))
        end = start + size
        return Answer(200, {key: found[start:end], "next-page-token": str(end) if end < len(found) else None})

    def _create_table(self, namespace: tuple[str, ...], body: dict[str, Any]) -> Answer:
        key = (*namespace, body["name"])
        self._require_free(key)
        updates = creation(
            read_schema(body["schema"], "schema"),
            uuid=str(uuid.uuid4()),
            location=body.get("location") or f"memory://store/wh/{'/'.join(key)}",
            spec=read_spec(body["partition-spec"], "") if "partition-spec" in body else UNPARTITIONED,
            order=read_order(body["write-order"], "") if "write-order" in body else UNSORTED,
            properties=body.get("properties"),
        )
        table = apply(None, updates, now_ms=1)
        if body.get("stage-create"):
            return Answer(200, {"metadata": _document(table), **self.extras})
        self._put("tables", key, table)
        return self._load("tables", key)

    def _create_view(self, namespace: tuple[str, ...], body: dict[str, Any]) -> Answer:
        key = (*namespace, body["name"])
        self._require_free(key)
        version = {**body["view-version"], "schema-id": -1}
        updates = read_updates(
            [
                {"action": "assign-uuid", "uuid": str(uuid.uuid4())},
                {"action": "set-location", "location": body.get("location") or "memory://store/wh/v"},
                {"action": "add-schema", "schema": body["schema"]},
                {"action": "add-view-version", "view-version": version},
                {"action": "set-current-view-version", "view-version-id": -1},
                {"action": "set-properties", "updates": body["properties"]},
            ]
        )
        self._put("views", key, apply_to_view(None, updates, now_ms=1))  # type: ignore[arg-type]
        return self._load("views", key)

    def _transaction(self, changes: list[dict[str, Any]]) -> Answer:
        before = dict(self.entries["tables"])
        try:
            for change in changes:
                self._commit("tables", _key(change["identifier"]), change)
        except Refusal:
            self.entries["tables"] = before
            raise
        return Answer(204)

    def _commit(self, kind: str, key: tuple[str, ...], body: dict[str, Any]) -> None:
        requirements, updates = read_requirements(body["requirements"]), read_updates(body["updates"])
        creates = any(each["type"] == "assert-create" for each in body["requirements"])
        if not creates:
            self._require(kind, key)
        base = self.entries[kind].get(key, (None, ""))[0]
        try:
            check(requirements, base)
            now_ms = time.time_ns() // 1_000_000
            change: Any = apply if kind == "tables" else apply_to_view
            changed = change(base, updates, now_ms=now_ms)
        except RequirementFailed as error:
            raise Refusal(409, "CommitFailedException", f"Requirement failed: {error}") from None
        except LakeplaneError as error:
            raise Refusal(400, "BadRequestException", str(error)) from None
        self._put(kind, key, changed)

    def _put(self, kind: str, key: tuple[str, ...], metadata: Any) -> None:
        self.entries[kind][key] = (
            metadata,
            f"{metadata.location}/metadata/{next(self.count):05d}.metadata.json",
        )

    def _load(self, kind: str, key: tuple[str, ...], *, extras: bool = True) -> Answer:
        metadata, at = self.entries[kind][key]
        document = _document(metadata) if kind == "tables" else write_view(metadata)
        body = {"metadata-location": at, "metadata": document, **(self.extras if extras else {})}
        return Answer(200, body, {"ETag": self._etag(kind, key)} if kind == "tables" else {})

    def _etag(self, kind: str, key: tuple[str, ...]) -> str:
        return f'W/"{self.entries[kind][key][1][-19:]}"'

    def _require(self, kind: str, key: tuple[str, ...]) -> None:
        if key not in self.entries[kind]:
            raise _missing("Table" if kind == "tables" else "View", key)

    def _require_free(self, key: tuple[str, ...]) -> None:
        if any(key in each for each in self.entries.values()):
            raise Refusal(409, "AlreadyExistsException", f"Table or view already exists: {key}")

    def snapshots(self, *key: str) -> list[int]:
        """The ids of a table's snapshots."""
        table = parse_metadata(serialize_metadata(self.entries["tables"][key][0]))
        return [snapshot.snapshot_id for snapshot in table.snapshots]


def _document(table: TableMetadata) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(serialize_metadata(table))
    return document


def _missing(what: str, key: tuple[str, ...]) -> Refusal:
    kind = {"Namespace": "NoSuchNamespaceException", "View": "NoSuchViewException"}.get(
        what, "NoSuchTableException"
    )
    return Refusal(404, kind, f"{what} does not exist: {'.'.join(key)}")


def _key(identifier: dict[str, Any]) -> tuple[str, ...]:
    return (*identifier["namespace"], identifier["name"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    catalog: RestServer
    wbufsize = -1

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def handle_any(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        is_form = "form-urlencoded" in (self.headers.get("Content-Type") or "")
        body = dict(parse_qsl(raw.decode())) if is_form else json.loads(raw) if raw else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        request = Seen(self.command, url.path, query, headers, body)
        server = self.catalog
        with server.lock:
            server.seen.append(request)
            fault = next((each for each in server.script if re.search(each.request, str(request))), None)
            if fault is not None:
                server.script.remove(fault)
        refused = server.tokens is not None and not url.path.endswith("/oauth/tokens")
        if refused and headers.get("authorization", "").removeprefix("Bearer ") not in (server.tokens or ()):
            model = {"message": "no such token", "type": "NotAuthorizedException", "code": 401}
            self._answer(Answer(401, {"error": model}))
        elif fault is None:
            self._answer(server.carry_out(request))
        else:
            self._go_wrong(fault, request)

    do_GET = do_HEAD = do_POST = do_DELETE = handle_any  # noqa: N815

    def _go_wrong(self, fault: Fault, request: Seen) -> None:
        answer = Answer(500)
        for _ in range(fault.applied):
            answer = self.catalog.carry_out(request)
        if fault.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if fault.cut or fault.reset:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR) if fault.cut else self.connection.close()
            return
        if fault.status is not None:
            document = {"error": {"message": "scripted", "type": "ScriptedException", "code": fault.status}}
            answer = Answer(fault.status, document)
        self._answer(answer._replace(headers={**answer.headers, **fault.headers}), fault)

    def _answer(self, answer: Answer, fault: Fault | None = None) -> None:
        body = b"" if answer.document is None else json.dumps(answer.document).encode()
        if fault is not None and fault.body is not None:
            body = fault.body
        with contextlib.suppress(OSError):
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status not in (204, 304):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "HEAD" or answer.status in (204, 304):
                return
            if fault is not None and fault.drip:
                for position in range(len(body)):
                    self.wfile.write(body[position : position + 1])
                    self.wfile.flush()
                    time.sleep(0.01)
            else:
                self.wfile.write(body)


@contextlib.contextmanager
def rest_server() -> Iterator[RestServer]:
    """Run a server on the loopback."""
    catalog = RestServer()
    handler = type("Handler", (_Handler,), {"catalog": catalog})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    catalog.uri = f"http://127.0.0.1:{server.server_port}"
    try:
        yield catalog
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
