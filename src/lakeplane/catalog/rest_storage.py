"""Stores for the tables of a REST catalog: with what its server vends, or what the user has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeplane.catalog.catalog import Entry
from lakeplane.catalog.metadata_files import place_in
from lakeplane.catalog.rest_entries import Access, Entries, read_access
from lakeplane.catalog.rest_paths import CREDENTIALS
from lakeplane.catalog.rest_session import Request, Session
from lakeplane.errors import InvalidLocation, LakeplaneError
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.open import open_store
from lakeplane.storage.options import Given, is_store_option, user_options, vended_options
from lakeplane.storage.router import Router
from lakeplane.storage.secret import Secret
from lakeplane.storage.store import Store

_PATHS: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
_LOCAL: Final = "file"
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasbs": "wasb"}


def open_for(session: Session, entries: Entries, entry: Entry) -> Store:
    """Make the store of a table: its location, and the other places that its properties name."""
    access = entries.access(entry)
    home = parse_location(entry.metadata.location)
    roots = [home]
    for place in (*_named(entry, home), *map(parse_location, session.settings.extra_locations)):
        if not any(root.contains(place) for root in roots):
            roots.append(place)
    # A credential may be for less than the table: its place is served by it, and by no other.
    narrower = [found for each in access.credentials if (found := _place(each.prefix)) is not None]
    inside = [place for place in narrower if any(root.contains(place) and root != place for root in roots)]
    for root in roots:
        _check_allowed(session, root)
    users = _users(session)

    def store(root: Location) -> Store:
        vended = _vended(session, access, root)
        if not vended_options(vended).secret:
            return open_store(root, users, vended=vended)
        return open_store(
            root,
            users,
            vended=vended,
            vend=lambda: _vended(session, _renewed(session, entries, entry), root),
        )

    stores = {root: store(root) for root in (*roots, *inside)}
    return stores[home] if len(stores) == 1 else Router(stores)


def _renewed(session: Session, entries: Entries, entry: Entry) -> Access:
    """New credentials, by the endpoint for them if there is one."""
    if entry.kind == "view" or not session.paths.has(CREDENTIALS):
        return entries.access(entry, fresh=True)
    request = Request(
        endpoint=CREDENTIALS,
        path=session.paths.of(CREDENTIALS, entry.name.namespace, entry.name.name),
        doing=f"credentials of {entry.name}",
        token=entries.token(entry.kind, entry.name),
    )
    return session.parse(session.read(request), read_access, request.doing)


def _named(entry: Entry, home: Location) -> list[Location]:
    """The places that a table's properties name; the metadata file may lie elsewhere, too."""
    found = [entry.metadata.properties[key] for key in _PATHS if key in entry.metadata.properties]
    places = [place_in(home, text) for text in found]
    if entry.metadata_location:
        places.append(parse_location(entry.metadata_location).parent)
    return places


def _check_allowed(session: Session, root: Location) -> None:
    if root.scheme == _LOCAL and not session.settings.allow_local_files:
        hint = "Set allow-local-files=true if the catalog and its tables share this machine's files"
        raise InvalidLocation("the server names files of this machine", source=root.text, hint=hint)


def _users(session: Session) -> Given:
    """The user's options over the server's defaults, whose credentials count only where the user has none."""
    own = session.settings.storage
    has_own = bool(user_options(own).secret)
    defaults = _sayable(_shown(session.config.storage_defaults))
    kept = {key: value for key, value in defaults.items() if not (has_own and isinstance(value, Secret))}
    return {**kept, **own}


def _vended(session: Session, access: Access, root: Location) -> Given:
    """What the server says about one place: the credentials with the longest prefix, else its config's."""
    config = {**_sayable(_shown(session.config.storage_overrides)), **_sayable(_shown(access.config))}
    matching = [each for each in access.credentials if _covers(each.prefix, root)]
    if not matching:
        return config
    best = max(matching, key=lambda each: len(each.prefix))
    own = _sayable(_shown(best.config))
    # Two sets of credentials must not become one.
    return {**{key: value for key, value in config.items() if not isinstance(value, Secret)}, **own}


def _covers(prefix: str, root: Location) -> bool:
    """Whether a prefix is for a place: a scheme, or a place around it by whole segments."""
    scheme, _, rest = prefix.partition(":")
    if not rest.strip("/"):
        return _SCHEMES.get(scheme.lower(), scheme.lower()) == root.scheme
    place = _place(prefix)
    return place is not None and place.contains(root)


def _place(prefix: str) -> Location | None:
    try:
        return parse_location(prefix)
    except InvalidLocation:
        return None


def _shown(config: Mapping[str, Secret]) -> dict[str, str]:
    return {key: value.reveal() for key, value in config.items()}


def _sayable(config: Mapping[str, str]) -> dict[str, str | Secret]:
    """What a server may say about storage; its credentials are wrapped."""
    found: dict[str, str | Secret] = {}
    for key, value in config.items():
        if not is_store_option(key):
            continue
        try:
            options = vended_options({key: value})
        except LakeplaneError:  # it asks for something, and whether that can be is seen later
            found[key] = value
            continue
        found |= dict(options.plain)
        found |= dict(options.secret)
    return found
