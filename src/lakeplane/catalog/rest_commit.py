"""Commits over REST, and the three ways that they can end.

A commit is sent once; again only when it certainly did not arrive, or when the server keeps our key and so
does it at most once. Whenever an answer was lost, and whenever the server says "conflict", the table itself
is asked: a proxy may have sent the commit twice, and the conflict may be one with ourselves.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from lakeplane.catalog.catalog import Change, Committed, Conflict, Entry, Metadata, Outcome, Unknown
from lakeplane.catalog.landed import has_landed
from lakeplane.catalog.metadata_files import creates
from lakeplane.catalog.names import Name, Namespace, check_new, show
from lakeplane.catalog.rest_create import is_plain, table_request, view_request, with_uuid, without_uuid
from lakeplane.catalog.rest_entries import DELEGATED, Entries
from lakeplane.catalog.rest_errors import is_from_catalog
from lakeplane.catalog.rest_paths import COMMIT, COMMIT_ALL, CREATE, LOAD_NAMESPACE
from lakeplane.catalog.rest_prepare import prepare
from lakeplane.catalog.rest_session import Reply, Request, Session
from lakeplane.errors import (
    AlreadyExists,
    CatalogCannot,
    CatalogUnavailable,
    InvalidInput,
    LakeplaneError,
    NotFound,
    RequirementFailed,
)
from lakeplane.iceberg.requirements import AssertTableUuid, AssertViewUuid, check
from lakeplane.iceberg.update_json import write_requirements, write_updates
from lakeplane.iceberg.updates import AddSchema, AddSnapshot, AssignUuid

log = logging.getLogger(__name__)

_CONFLICT: Final = 409
_REFUSED: Final = (400, 422)


class Commits:
    """Publishes changes through one session."""

    def __init__(self, session: Session, entries: Entries) -> None:
        self._session = session
        self._entries = entries

    def commit(self, changes: Sequence[Change]) -> Outcome:
        """Publish changes: one by the endpoint of its table or view, several by that for transactions."""
        names = [change.name for change in changes]
        if len(set(names)) < len(names):
            raise InvalidInput("one commit holds two changes of the same table", hint="Make them one change")
        for change in changes:
            if creates(change):
                check_new(change.name.parts)
        match list(changes):
            case []:
                return Committed(())
            case [Change(kind="view") as change] if creates(change):
                self.require_namespace(change.name.namespace)
                return self._create_view(change)
            case [change]:
                return self._commit_one(change)
            case several:
                return self._commit_all(several)

    def _commit_one(self, change: Change) -> Outcome:
        ready = self._ready(change, alone=True)
        if not isinstance(ready, Change):
            return Committed((ready,)) if isinstance(ready, Entry) else ready
        return self._send_one(ready)

    def _send_one(self, ready: Change) -> Outcome:
        request = Request(
            endpoint=COMMIT[ready.kind],
            path=self._session.paths.of(COMMIT[ready.kind], ready.name.namespace, ready.name.name),
            doing=f"commit to {ready.kind} {ready.name}",
            document=_document(ready),
            token=self._entries.token(ready.kind, ready.name),
        )
        return self._outcome(ready, request)

    def _commit_all(self, changes: list[Change]) -> Outcome:
        if any(change.kind == "view" for change in changes):
            raise CatalogCannot("a REST catalog commits several tables together, but no views")
        path = self._session.paths.of(COMMIT_ALL)
        done: dict[Name, Entry] = {}
        send: list[Change] = []
        for change in changes:
            match self._ready(change, alone=False):
                case Change() as ready:
                    send.append(ready)
                case Entry() if change.requirements:
                    # It changes nothing, but what it requires must hold at the moment of the others.
                    send.append(change)
                case Entry() as entry:
                    done[entry.name] = entry
                case outcome:
                    return outcome
        if send:
            outcome = self._send_one(send[0]) if len(send) == 1 else self._send_all(send, path)
            if not isinstance(outcome, Committed):
                return outcome
            done |= {entry.name: entry for entry in outcome.entries}
        return Committed(tuple(done[change.name] for change in changes))

    def _send_all(self, changes: list[Change], path: str) -> Outcome:
        names = ", ".join(str(change.name) for change in changes)
        request = Request(
            endpoint=COMMIT_ALL,
            path=path,
            doing=f"commit to {names:.200}",
            document={"table-changes": list(map(_document, changes))},
        )
        reply = self._session.write(request)
        return self._read_all(changes) if reply.is_success else self._failed(changes, request, reply)

    def _read_all(self, changes: list[Change]) -> Outcome:
        """What the changes led to: the server does not say, and it may be newer by now."""
        try:
            return Committed(tuple(self._entries.load(each.kind, each.name, whole=True) for each in changes))
        except LakeplaneError as error:
            return Unknown(f"it was committed, and could not be read then: {error}")

    def _ready(self, change: Change, *, alone: bool) -> Change | Entry | Outcome:
        """The change as it is to be sent, if it needs to be."""
        kind, name = change.kind, change.name
        if not creates(change):
            now_ms = int(self._session.now() * 1000)
            seen = self._entries.seen(kind, name)
            return prepare(change, seen, lambda: self._entries.load(kind, name, whole=True), now_ms)
        self.require_namespace(name.namespace)
        return self._stage(change, alone=alone)

    def require_namespace(self, namespace: Namespace) -> None:
        """Raise ``NotFound`` if there is no such namespace: not all servers look."""
        paths = self._session.paths
        if paths.has(LOAD_NAMESPACE):
            doing = f"namespace {show(namespace)}"
            path = paths.of(LOAD_NAMESPACE, namespace)
            self._session.read(Request(endpoint=LOAD_NAMESPACE, path=path, doing=doing))

    def _stage(self, change: Change, *, alone: bool) -> Change | Outcome:
        """Announce a table that is about to be created; servers prepare for it, and give it its identity."""
        paths = self._session.paths
        if not paths.has(CREATE["table"]) or not any(isinstance(each, AddSchema) for each in change.updates):
            return change
        request = self._creation(change, table_request(change, stage=True))
        reply = self._session.write(request)
        if reply.is_success and reply.answer is not None:
            uuid = self._session.parse(reply.answer, _staged_uuid, request.doing)
            return with_uuid(change, uuid) if uuid else change
        if reply.answer is None or reply.was_lost:
            # Nothing is created by staging, whether it arrived or not.
            raise CatalogUnavailable(reply.reason, source=request.doing)
        error = self._session.error(reply.answer, request)
        if isinstance(error, AlreadyExists):
            return Conflict(f"{change.name}: it exists already")
        if alone and is_plain(change) and isinstance(error, CatalogCannot | InvalidInput):
            return self._create_at_once(change)
        raise error

    def _create_at_once(self, change: Change) -> Outcome:
        request = self._creation(change, table_request(change, stage=False))
        return self._outcome(without_uuid(change), request)

    def _create_view(self, change: Change) -> Outcome:
        return self._outcome(without_uuid(change), self._creation(change, view_request(change)))

    def _creation(self, change: Change, document: dict[str, Any]) -> Request:
        endpoint = CREATE[change.kind]
        return Request(
            endpoint=endpoint,
            path=self._session.paths.of(endpoint, change.name.namespace),
            doing=f"create {change.kind} {change.name}",
            document=document,
            headers=DELEGATED,
            is_repeatable=bool(document.get("stage-create")),
        )

    def _outcome(self, change: Change, request: Request) -> Outcome:
        """Send a change whose answer is the table or view that it led to."""
        reply = self._session.write(request)
        if not reply.is_success or reply.answer is None:
            return self._failed([change], request, reply)
        try:
            entry = self._entries.take(change.kind, change.name, reply.answer)
        except (LakeplaneError, MemoryError) as error:
            return self._after_loss([change], f"the answer cannot be read: {error}")
        if _has_identity(change) and not has_landed(change, entry.metadata):
            self._entries.forget(change.kind, change.name)
            return self._after_loss([change], "the answer does not hold the change")
        return Committed((entry,))

    def _failed(self, changes: list[Change], request: Request, reply: Reply) -> Outcome:
        answer = reply.answer
        if answer is None or (reply.was_lost and answer.status != _CONFLICT):
            return self._after_loss(changes, reply.reason)
        error = self._session.error(answer, request)
        if answer.status == _CONFLICT:
            if not is_from_catalog(answer):
                return self._after_loss(changes, reply.reason)
            if not reply.was_lost and any(creates(each) and not _has_identity(each) for each in changes):
                # What the server gives an identity to cannot be told from what was there before.
                return Conflict(str(error))
            return self._after_conflict(changes, str(error))
        if answer.status in _REFUSED and all(map(_has_identity, changes)):
            # A commit that was delivered twice may be refused the second time for what it did the first.
            found = self._after_loss(changes, reply.reason)
            if isinstance(found, Committed):
                return found
        raise error

    def _after_conflict(self, changes: list[Change], reason: str) -> Outcome:
        try:
            found = list(map(self._seen, changes))
        except LakeplaneError as error:
            return Unknown(f"{reason}; whether the conflict is with ourselves cannot be seen: {error}")
        entries = tuple(entry for entry in found if entry is not None)
        if len(entries) == len(changes):
            return Committed(entries)
        ours = [
            change for change, entry in zip(changes, found, strict=True) if entry and _has_identity(change)
        ]
        if ours:
            return Unknown(f"{reason}; but {ours[0].name} holds our change, and others do not")
        return Conflict(reason)

    def _after_loss(self, changes: list[Change], reason: str) -> Outcome:
        try:
            found = list(map(self._seen, changes))
        except LakeplaneError as error:
            return Unknown(f"{reason}; and looking failed: {error}")
        entries = tuple(entry for entry in found if entry is not None)
        return Committed(entries) if len(entries) == len(changes) else Unknown(reason)

    def _seen(self, change: Change) -> Entry | None:
        """The table or view if the change is part of it."""
        try:
            # Without all snapshots, ours could be hidden under a later one.
            entry = self._entries.load(change.kind, change.name, whole=True)
        except NotFound:
            return None
        if not _is_the_same(change, entry.metadata) or not has_landed(change, entry.metadata):
            return None
        return entry


def _is_the_same(change: Change, now: Metadata) -> bool:
    """Whether it is still the table that the change was made for, and not another of the same name."""
    kinds = (AssertTableUuid, AssertViewUuid)
    try:
        check((each for each in change.requirements if isinstance(each, kinds)), now)
    except RequirementFailed:
        return False
    return True


def _has_identity(change: Change) -> bool:
    """Whether a change can be told from the same change by somebody else."""
    return any(isinstance(update, AddSnapshot | AssignUuid) for update in change.updates)


def _document(change: Change) -> dict[str, Any]:
    return {
        "identifier": {"namespace": list(change.name.namespace), "name": change.name.name},
        "requirements": write_requirements(change.requirements),
        "updates": write_updates(change.updates),
    }


def _staged_uuid(document: Any) -> str | None:
    metadata = document.get("metadata")
    found = metadata.get("table-uuid") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) and found else None
