"""What a failed request means: done, not done, or unknown. The one place that reads obstore's errors.

obstore tells by exception class what it knows, and the status of the answer only in a text that also quotes
the request and the whole answer: signed URLs, tokens that S3 repeats in its errors. So what is needed is
picked out of the text, and nothing else of it is passed on.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from lakeplane.errors import (
    AccessDenied,
    FileChanged,
    FileExists,
    InvalidInput,
    InvalidLocation,
    LakeplaneError,
    NoSpace,
    OutcomeUnknown,
    StorageError,
    StoreCannot,
)
from lakeplane.model.location import Location
from lakeplane.storage.store import missing

Action: TypeAlias = Literal["read", "put", "create", "update", "delete"]
"""``create`` and ``update`` are puts with a condition: if absent, and if match."""

_STATUS: Final = re.compile(r"non-2xx status code: (\d{3})")
_METHOD: Final = re.compile(r"Error performing ([A-Z]+) ")
_REPEATED: Final = re.compile(r", after \d+ retries,")
_CODE: Final = re.compile(r"<Code>(\w{1,80})</Code>")
_INSTANCE: Final = re.compile(r"Error performing PUT \S+/latest/api/token in ")
"""The question for credentials to an EC2 machine's metadata service, which happens to be a PUT."""
_REDIRECT: Final = "redirect without LOCATION"
_KIND: Final = re.compile(r"HttpError \{\s+kind: (\w+)")
_OTHERS_FILE: Final = frozenset({"BlobAlreadyExists"})
_FULL: Final = frozenset({"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage"})

RANGE_BEYOND_END: Final = 416


class Answer(NamedTuple):
    """What is known of an answer."""

    status: int | None
    code: str | None
    """The name that the store gives to the failure, such as ``NoSuchBucket``."""
    method: str | None
    """Of the request that failed; it may be one for credentials."""
    kind: str | None
    """What happened to the connection, if there was no answer."""
    is_about_credentials: bool = False
    was_repeated: bool = False
    """Whether the answer is to a repetition: the first request may have been carried out before."""

    def __str__(self) -> str:
        if self.status is not None:
            return f"the store answered {self.status}" + (f" {self.code}" if self.code else "")
        reasons = {"Connect": "no connection", "Timeout": "no answer in time"}
        return reasons.get(self.kind or "", "no answer, or not a whole one")


def answer_in(failure: Exception) -> Answer:
    """Pick out of an error's text what is known of the answer."""
    text = str(failure)
    status, code, method, kind = (found.search(text) for found in (_STATUS, _CODE, _METHOD, _KIND))
    return Answer(
        status=int(status[1]) if status else 301 if _REDIRECT in text else None,
        code=code[1] if code else None,
        method=method[1] if method else None,
        kind=kind[1] if kind else None,
        is_about_credentials=_INSTANCE.search(text) is not None,
        was_repeated=_REPEATED.search(text) is not None,
    )


class Collision(StorageError):
    """Two conditional writes met, and this one was not applied: it can be sent again."""


def translate(failure: Exception, at: Location, action: Action) -> LakeplaneError:
    """Say in our own errors what a failed request means."""
    kind, answer = type(failure).__name__, answer_in(failure)
    source = at.text
    if answer.is_about_credentials and at.name != "token":
        return _no_credentials(at)
    if action == "put" and answer.was_repeated:
        return _unknown(answer, at)
    if action in ("create", "update") and (lost := _lost(kind, answer, at, action)) is not None:
        return lost
    if isinstance(failure, FileNotFoundError):
        if action != "read":
            return StorageError("there is no such bucket or container", source=source)
        return missing(at)
    if kind in ("PermissionDeniedError", "UnauthenticatedError"):
        why = "no credentials could be had" if answer.status is None else str(answer)
        return AccessDenied(why, source=source, hint="Check the credentials and what they allow")
    if kind in ("NotSupportedError", "NotImplementedError"):
        return StoreCannot("this kind of store cannot do that", source=source)
    if kind in ("InvalidPathError", "ValueError"):
        return InvalidLocation("this kind of store has no such names", source=source)
    if kind == "UnknownConfigurationKeyError":
        return InvalidInput("the store's client refuses its options", source=source)
    return _by_answer(answer, at, action)


def _lost(kind: str, answer: Answer, at: Location, action: Action) -> LakeplaneError | None:
    """The meaning of an answer to a condition; ``None`` if it is not about that."""
    if kind not in ("AlreadyExistsError", "PreconditionError", "NotModifiedError"):
        return None
    if answer.status == 409 and answer.code not in _OTHERS_FILE:  # noqa: PLR2004
        # S3 says so when conditional requests meet; neither the condition nor the write was decided.
        return Collision("another conditional write got in the way", source=at.text, hint="Try again")
    if action == "create":
        return FileExists("somebody else's file is there", source=at.text)
    return FileChanged("the file is another one, or gone", source=at.text)


def _by_answer(answer: Answer, at: Location, action: Action) -> LakeplaneError:
    source, writes = at.text, action in ("put", "create", "update")
    if answer.status == 507 or answer.code in _FULL:  # noqa: PLR2004
        return NoSpace(str(answer), source=source)
    if answer.status == 501:  # noqa: PLR2004
        return StoreCannot(str(answer), source=source)
    if answer.status is not None:
        refused = 300 <= answer.status < 500 and answer.status != 408  # noqa: PLR2004
        if refused or not writes:
            moved = 300 <= answer.status < 400  # noqa: PLR2004
            hint = "Redirects are not followed: check region and endpoint" if moved else None
            return StorageError(str(answer), source=source, hint=hint)
    elif answer.kind == "Connect" and answer.method in ("PUT", None):
        return StorageError(str(answer), source=source)
    elif action in ("create", "update") and answer.method in ("GET", "POST"):
        # A write with a condition is a single PUT, so this was about credentials, before it was sent.
        return _no_credentials(at)
    elif not writes:
        return StorageError(str(answer), source=source)
    return _unknown(answer, at)


def _no_credentials(at: Location) -> AccessDenied:
    hint = "Give them as options, or set up one of the platform's own ways"
    return AccessDenied("no credentials could be had", source=at.text, hint=hint)


def _unknown(answer: Answer, at: Location) -> OutcomeUnknown:
    hint = "It may have happened, or may yet happen: look before writing again"
    return OutcomeUnknown(f"{answer}, so it is not known whether it was written", source=at.text, hint=hint)
