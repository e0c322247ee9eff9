"""What an answer other than success means, as one of the errors of the tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from lakeplane.catalog.rest_http import Answer
from lakeplane.errors import (
    AccessDenied,
    AlreadyExists,
    CatalogCannot,
    CatalogUnavailable,
    CommitConflict,
    InvalidInput,
    LakeplaneError,
    NamespaceNotEmpty,
    NotFound,
)
from lakeplane.storage.secret import Secret, mask

_LONGEST: Final = 400
_HEAD: Final = 1 << 16
"""How much of an answer is looked at for a message: servers send whole stacks along."""

_BY_TYPE: Final[dict[str, type[LakeplaneError]]] = {
    "NamespaceNotEmptyException": NamespaceNotEmpty,
    "CommitFailedException": CommitConflict,
    "UnsupportedOperationException": CatalogCannot,
    "AlreadyExistsException": AlreadyExists,
    "NotAuthorizedException": AccessDenied,
    "ForbiddenException": AccessDenied,
}
_BY_STATUS: Final[dict[int, type[LakeplaneError]]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    405: CatalogCannot,
    406: CatalogCannot,
    408: CatalogUnavailable,
    409: AlreadyExists,
    419: AccessDenied,
    429: CatalogUnavailable,
    501: CatalogCannot,
}


def is_from_catalog(answer: Answer) -> bool:
    """Whether an error comes from a catalog, by its form; else somebody on the way has answered."""
    return _model(answer) is not None


def error_of(answer: Answer, doing: str, secrets: Iterable[Secret]) -> LakeplaneError:
    """The error for an answer that is no success; its text is made safe to show."""
    model = _model(answer)
    status = answer.status
    if 300 <= status < 400:  # noqa: PLR2004
        hint = "Redirects are not followed: give the catalog's own address"
        return CatalogUnavailable(f"the server sends elsewhere ({status})", source=doing, hint=hint)
    if model is None:
        return _foreign(status, doing)
    message, kind = (str(model.get(key) or "") for key in ("message", "type"))
    text = f"{_safe(message, secrets)} ({status})" if message else f"the server answered {status}"
    found = _BY_TYPE.get(kind) if status < 500 or status == 501 else None  # noqa: PLR2004
    found = found or _BY_STATUS.get(status)
    if found is None:
        found = InvalidInput if 400 <= status < 500 else CatalogUnavailable  # noqa: PLR2004
    return found(text, source=doing)


def _foreign(status: int, doing: str) -> LakeplaneError:
    match status:
        case 401 | 403 | 407 | 419:
            return AccessDenied(
                f"the server answered {status}", source=doing, hint="Check token or credential"
            )
        case 405 | 406 | 501:
            return CatalogCannot(f"the server answered {status}", source=doing)
        case 400 | 409 | 411 | 412 | 413 | 414 | 415 | 417 | 422 | 431:
            return InvalidInput(f"the server answered {status}", source=doing)
        case _:
            # A 404 of a proxy must not be taken for "there is no such table".
            hint = "Check the address of the catalog, and whether it is up"
            return CatalogUnavailable(
                f"answered {status}, and not as a catalog does", source=doing, hint=hint
            )


def _model(answer: Answer) -> dict[str, Any] | None:
    if len(answer.body) > _HEAD * 16:
        return None
    try:
        document = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    model = document.get("error")
    if isinstance(model, dict):
        return model
    if isinstance(model, str):  # the form of OAuth servers
        return {"message": document.get("error_description") or model, "type": model}
    return None


def _safe(text: str, secrets: Iterable[Secret]) -> str:
    shown = "".join(mark if mark.isprintable() else " " for mark in mask(text[:_HEAD], secrets))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
