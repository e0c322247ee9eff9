"""The endpoints of the REST spec, which of them a server has, and the paths to them."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

import msgspec

from lakeplane.catalog.names import Namespace, show
from lakeplane.catalog.rest_options import Config
from lakeplane.errors import CatalogCannot, InvalidInput

_NAMESPACES: Final = "/v1/{prefix}/namespaces"
_NAMESPACE: Final = "/v1/{prefix}/namespaces/{namespace}"


class Endpoint(msgspec.Struct, frozen=True):
    """A method and a path, as servers list them."""

    method: str
    path: str
    takes_key: bool = False
    """Whether the spec has an ``Idempotency-Key`` for it."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


LIST_NAMESPACES: Final = Endpoint("GET", _NAMESPACES)
CREATE_NAMESPACE: Final = Endpoint("POST", _NAMESPACES, takes_key=True)
LOAD_NAMESPACE: Final = Endpoint("GET", _NAMESPACE)
DROP_NAMESPACE: Final = Endpoint("DELETE", _NAMESPACE, takes_key=True)
CHANGE_NAMESPACE: Final = Endpoint("POST", f"{_NAMESPACE}/properties", takes_key=True)
LIST: Final = {
    "table": Endpoint("GET", f"{_NAMESPACE}/tables"),
    "view": Endpoint("GET", f"{_NAMESPACE}/views"),
}
CREATE: Final = {
    "table": Endpoint("POST", f"{_NAMESPACE}/tables", takes_key=True),
    "view": Endpoint("POST", f"{_NAMESPACE}/views"),
}
LOAD: Final = {
    "table": Endpoint("GET", f"{_NAMESPACE}/tables/{{table}}"),
    "view": Endpoint("GET", f"{_NAMESPACE}/views/{{view}}"),
}
EXISTS: Final = {
    "table": Endpoint("HEAD", f"{_NAMESPACE}/tables/{{table}}"),
    "view": Endpoint("HEAD", f"{_NAMESPACE}/views/{{view}}"),
}
COMMIT: Final = {
    "table": Endpoint("POST", f"{_NAMESPACE}/tables/{{table}}", takes_key=True),
    "view": Endpoint("POST", f"{_NAMESPACE}/views/{{view}}", takes_key=True),
}
DROP: Final = {
    "table": Endpoint("DELETE", f"{_NAMESPACE}/tables/{{table}}", takes_key=True),
    "view": Endpoint("DELETE", f"{_NAMESPACE}/views/{{view}}", takes_key=True),
}
RENAME: Final = {
    "table": Endpoint("POST", "/v1/{prefix}/tables/rename", takes_key=True),
    "view": Endpoint("POST", "/v1/{prefix}/views/rename", takes_key=True),
}
REGISTER: Final = {
    "table": Endpoint("POST", f"{_NAMESPACE}/register", takes_key=True),
    "view": Endpoint("POST", f"{_NAMESPACE}/register-view", takes_key=True),
}
CREDENTIALS: Final = Endpoint("GET", f"{_NAMESPACE}/tables/{{table}}/credentials")
COMMIT_ALL: Final = Endpoint("POST", "/v1/{prefix}/transactions/commit", takes_key=True)

_ALWAYS: Final = (
    LIST_NAMESPACES,
    CREATE_NAMESPACE,
    LOAD_NAMESPACE,
    DROP_NAMESPACE,
    CHANGE_NAMESPACE,
    LIST["table"],
    CREATE["table"],
    LOAD["table"],
    COMMIT["table"],
    DROP["table"],
    REGISTER["table"],
    RENAME["table"],
    COMMIT_ALL,
)
DEFAULT_ENDPOINTS: Final = frozenset(map(str, _ALWAYS))
"""What a server has that does not tell, by the spec."""

VIEW_ENDPOINTS: Final = frozenset(str(each["view"]) for each in (LIST, CREATE, LOAD, COMMIT, DROP, RENAME))
"""What ``view-endpoints-supported`` adds, for servers that do not tell."""


class Paths:
    """The paths of one server."""

    def __init__(self, config: Config, *, views_assumed: bool) -> None:
        self._config = config
        assumed = DEFAULT_ENDPOINTS | VIEW_ENDPOINTS if views_assumed else DEFAULT_ENDPOINTS
        self._endpoints = assumed if config.endpoints is None else config.endpoints

    def has(self, endpoint: Endpoint) -> bool:
        """Whether the server has an endpoint."""
        return str(endpoint) in self._endpoints

    def of(self, endpoint: Endpoint, namespace: Namespace = (), name: str | None = None) -> str:
        """The path of an endpoint, encoded; ``CatalogCannot`` when the server does not have it."""
        if not self.has(endpoint):
            raise CatalogCannot(f"the server does not offer {endpoint}")
        path = endpoint.path
        path = path.replace("{prefix}/", f"{self._config.prefix}/" if self._config.prefix else "")
        if "{namespace}" in path:
            path = path.replace("{namespace}", self._namespace(namespace))
        if name is not None:
            path = path.replace("{table}", _part(name)).replace("{view}", _part(name))
        return path

    def parent(self, namespace: Namespace) -> str:
        """A namespace as the value of a query parameter, not yet encoded."""
        self._namespace(namespace)
        return unquote(self._config.separator).join(namespace)

    def _namespace(self, namespace: Namespace) -> str:
        if not namespace:
            raise InvalidInput("the root is no namespace of this catalog", hint="Name a namespace")
        separator = unquote(self._config.separator)
        if any(separator in part for part in namespace):
            hint = "The server uses these characters between the parts of a name"
            raise InvalidInput(f"the name {show(namespace)} cannot be sent", hint=hint)
        # The separator goes in the server's spelling: some look for it before they decode.
        return self._config.separator.join(map(_part, namespace))


def _part(text: str) -> str:
    # A part of dots would be taken for a step up by somebody on the way, encoded or not.
    if not text or set(text) == {"."}:
        raise InvalidInput(f"the name {text!r} cannot be sent")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise InvalidInput(f"the name {text!a} is not text") from None
