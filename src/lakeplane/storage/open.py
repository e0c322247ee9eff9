"""From a location and options to a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from lakeplane.errors import InvalidInput, InvalidLocation
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.clients import Refresh
from lakeplane.storage.local import LocalStore
from lakeplane.storage.options import NONE, Given, Options, merge, user_options, vended_options
from lakeplane.storage.recipe import Recipe, RecipePart
from lakeplane.storage.router import Router
from lakeplane.storage.store import Store

_FAMILY_OF: Final = {"s3": "s3", "gs": "gcs", "abfs": "adls", "wasb": "adls"}


def open_store(
    location: Location,
    options: Given | None = None,
    *,
    vended: Given | None = None,
    vend: Callable[[], Given] | None = None,
) -> Store:
    """Make a store of the files in a location.

    ``options`` are the user's, ``vended`` is what a catalog server sent along, and ``vend`` asks it again
    before those credentials expire. Without credentials the usual chains of the platform are used.
    """
    return _open(location, user_options(options or {}), vended_options(vended or {}), vend)


def open_router(
    roots: Sequence[Location],
    options: Given | None = None,
    *,
    vended: Mapping[Location, Given] | None = None,
    vend: Callable[[Location], Given] | None = None,
    elsewhere: Collection[str] = (),
) -> Router:
    """Make one store of several places; those with vended credentials use them, the others the user's.

    Nothing else is opened, unless its scheme is in ``elsewhere``: then its whole bucket or file system is,
    with the user's credentials. What remote metadata points to must not decide that.
    """
    users = user_options(options or {})
    routes: dict[Location, Store] = {root: _open(root, users, NONE, None) for root in roots}
    for root, given in (vended or {}).items():
        ask = None if vend is None else _asking(vend, root)
        routes[root] = _open(root, users, vended_options(given), ask)
    return Router(routes, _Elsewhere(users, frozenset(elsewhere)) if elsewhere else None)


def open_recipe(recipe: Recipe) -> Store:
    """Make the store that a recipe tells of."""
    routes: dict[Location, Store] = {}
    others: _Elsewhere | None = None
    for part in recipe.parts:
        options = user_options(dict((*part.options, *part.secrets)))
        if part.location is None:
            others = _Elsewhere(options, frozenset(part.schemes))
        else:
            root = parse_location(part.location)
            routes[root] = _open(root, options, NONE, None)
    if not routes and others is not None and others.schemes == {"file"}:
        return LocalStore()
    if others is None and len(routes) == 1:
        return next(iter(routes.values()))
    return Router(routes, others)


def _asking(vend: Callable[[Location], Given], root: Location) -> Callable[[], Given]:
    return lambda: vend(root)


def _open(location: Location, users: Options, vended: Options, vend: Callable[[], Given] | None) -> Store:
    if location.scheme == "file":
        return LocalStore(location)
    if location.scheme == "memory":
        raise InvalidInput("a store in memory is not opened by its location", hint="Make a MemoryStore")
    from lakeplane.storage.remote import RemoteStore  # noqa: PLC0415  # not needed for local files

    if not location.authority:
        raise InvalidLocation("no bucket, container or host", source=location.text)
    refresh = None if vend is None else _refresh(vend, _FAMILY_OF.get(location.scheme, ""))
    return RemoteStore(location, merge(users, vended), refresh)


def _refresh(vend: Callable[[], Given], family: str) -> Refresh:
    return lambda: vended_options(vend()).credentials(family)


class _Elsewhere:
    """Opens the bucket of any place whose scheme is allowed, with a user's options."""

    def __init__(self, options: Options, schemes: frozenset[str]) -> None:
        self.options = options
        self.schemes = schemes

    def open(self, at: Location) -> Store | None:
        """Make a store of a place's whole bucket; ``None`` if that scheme is not allowed."""
        if at.scheme not in self.schemes:
            return None
        if at.scheme == "file":
            return LocalStore()
        return _open(parse_location(f"{at.scheme}://{at.authority}"), self.options, NONE, None)

    def part(self, *, with_secrets: bool) -> RecipePart:
        """Tell how to make this in another process."""
        plain = tuple(sorted(self.options.plain.items()))
        secret = tuple((key, value.reveal()) for key, value in sorted(self.options.secret.items()))
        return RecipePart(None, plain, secret if with_secrets else (), tuple(sorted(self.schemes)))
