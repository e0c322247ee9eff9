"""Try out what a store promises, before anything depends on it."""

from __future__ import annotations

import uuid

from lakeplane.errors import FileExists, StoreCannot
from lakeplane.model.location import Location
from lakeplane.storage.store import Store

_HINT = "Keep the tables in a SQL or REST catalog, or on another store"


def require_put_if_absent(store: Store, under: Location) -> None:
    """Make sure that put-if-absent excludes, by writing a small file twice and deleting it again.

    Some stores that speak S3's protocol ignore the condition and answer that all went well; some file systems
    have no hard links. A catalog that publishes by put-if-absent would lose commits on either.

    Raises:
        StoreCannot: put-if-absent is not offered, or does not exclude.
    """
    if not store.can_put_if_absent:
        raise StoreCannot("this store has no put-if-absent", source=under.text, hint=_HINT)
    at = under / f".lakeplane-probe-{uuid.uuid4().hex}"
    try:
        store.put(at, b"first", if_absent=True)
        try:
            store.put(at, b"second", if_absent=True)
        except FileExists:
            return
        raise StoreCannot("this store ignores put-if-absent", source=under.text, hint=_HINT)
    finally:
        store.delete(at)
