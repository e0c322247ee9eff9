"""Checks of catalogs: the metadata files of tables, their log, and what properties say about them."""

from __future__ import annotations

import gzip
import json
import uuid
from typing import Any, Final

from lakeplane.catalog.catalog import Catalog, Entry
from lakeplane.catalog.metadata_files import serialize
from lakeplane.catalog.names import Name
from lakeplane.errors import FileMissing, LakeplaneError
from lakeplane.iceberg import updates as u
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import parse_location
from lakeplane.testing.catalog_subject import (
    Ability,
    Check,
    Subject,
    a_namespace,
    a_table,
    as_table,
    changed,
    property_set,
    refused,
    table_of,
)

_GZIP: Final = b"\x1f\x8b"


def _document(catalog: Catalog, entry: Entry) -> Any:
    data = catalog.store_for(entry).read(parse_location(entry.metadata_location))
    return json.loads(gzip.decompress(data) if data.startswith(_GZIP) else data)


def _exists(catalog: Catalog, entry: Entry, file: str) -> bool:
    try:
        catalog.store_for(entry).stat(parse_location(file))
    except FileMissing:
        return False
    return True


def logs_every_metadata_file(subject: Subject) -> None:
    """Each commit writes a file of its own, and the log names those before it, each once and in order."""
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "orders")
    entries = [a_table(catalog, name)]
    entries += [changed(catalog, name, property_set("n", str(n))) for n in range(5)]
    files = [entry.metadata_location for entry in entries]
    assert len(set(files)) == 6  # noqa: PLR2004
    table = table_of(catalog, name)
    assert [each.metadata_file for each in table.metadata_log] == files[:-1]
    times = [each.timestamp_ms for each in table.metadata_log] + [table.last_updated_ms]
    assert times == sorted(times)
    assert times[:-1] == [as_table(entry).last_updated_ms for entry in entries[:-1]]
    assert all(_exists(catalog, entries[-1], file) for file in files)
    assert _document(catalog, entries[-1])["properties"]["n"] == "4"


def limits_the_log(subject: Subject) -> None:
    """The log is as long as write.metadata.previous-versions-max says; files that it drops stay."""
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "orders")
    entries = [a_table(catalog, name, properties={"write.metadata.previous-versions-max": "2"})]
    entries += [changed(catalog, name, property_set("n", str(n))) for n in range(4)]
    files = [entry.metadata_location for entry in entries]
    assert [each.metadata_file for each in table_of(catalog, name).metadata_log] == files[2:4]
    assert all(_exists(catalog, entries[-1], file) for file in files)


def deletes_old_metadata_files(subject: Subject) -> None:
    """With delete-after-commit, files that the log drops go, and no others."""
    catalog = subject.connect()
    if not subject.can(Ability.DELETES_OLD_METADATA):
        return
    namespace = a_namespace(catalog)
    name, twin = Name(namespace, "orders"), Name(namespace, "orders2")
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    untouched = [a_table(catalog, twin), changed(catalog, twin, property_set("a", "1"))]
    entries = [a_table(catalog, name, properties=properties)]
    data = parse_location(entries[0].metadata.location) / "metadata/snap-1.avro"
    catalog.store_for(entries[0]).put(data, b"kept")
    for n in range(5):
        entries.append(changed(catalog, name, property_set("n", str(n))))
        there = [_exists(catalog, entries[0], entry.metadata_location) for entry in entries]
        assert there == [number >= len(entries) - 3 for number in range(len(entries))]
    assert table_of(catalog, name) == entries[-1].metadata
    assert _exists(catalog, entries[0], str(data))
    assert all(_exists(catalog, each, each.metadata_location) for each in untouched)


def compresses_metadata(subject: Subject) -> None:
    """Metadata files are gzipped when the table says so, plain when it does not, and read either way."""
    catalog, other = subject.connect(), subject.connect()
    name = Name(a_namespace(catalog), "orders")
    if not subject.can(Ability.GZIP):
        a_table(catalog, name, properties={"write.metadata.compression-codec": "gzip"})
        assert table_of(other, name).properties["write.metadata.compression-codec"] == "gzip"
        return
    a_table(catalog, name)
    for codec in ("gzip", "none"):
        changed(catalog, name, property_set("write.metadata.compression-codec", codec))
        # A catalog may need one commit more, so that writers of either codec race for the same file.
        entry = changed(catalog, name, property_set("written", codec))
        data = catalog.store_for(entry).read(parse_location(entry.metadata_location))
        assert data.startswith(_GZIP) == (codec == "gzip")
        assert (".gz" in entry.metadata_location.rsplit("/", 1)[-1]) == (codec == "gzip")
        assert table_of(other, name) == entry.metadata
    assert len(table_of(catalog, name).metadata_log) == 4  # noqa: PLR2004


def puts_metadata_where_it_is_told(subject: Subject) -> None:
    """write.metadata.path moves new metadata files; a catalog that cannot do it says so."""
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "orders")
    first = a_table(catalog, name)
    place = parse_location(first.metadata.location) / "elsewhere"
    update = property_set("write.metadata.path", str(place))
    if not subject.can(Ability.METADATA_PATH):
        refused(lambda: changed(catalog, name, update))
        assert catalog.load("table", name) == first
        return
    changed(catalog, name, update)
    entry = changed(catalog, name, property_set("a", "1"))
    assert parse_location(entry.metadata_location).parent == place
    assert table_of(subject.connect(), name) == entry.metadata
    entry = changed(catalog, name, u.RemoveProperties(("write.metadata.path",)))
    entry = changed(catalog, name, property_set("a", "2"))
    assert not place.contains(parse_location(entry.metadata_location))


def keeps_unknown_fields(subject: Subject) -> None:
    """What a newer writer put into the metadata is still there after a commit."""
    catalog = subject.connect()
    if not (subject.can(Ability.KEEPS_UNKNOWN) and subject.can(Ability.REGISTER)):
        return
    name = Name(a_namespace(catalog), "orders")
    entry = a_table(catalog, name)
    document = json.loads(serialize(entry.metadata, compress=False))
    document["from-the-future"] = {"deep": [1, {"x": None}]}
    file = parse_location(entry.metadata.location) / f"metadata/00000-{uuid.uuid4()}.metadata.json"
    catalog.store_for(entry).put(file, json.dumps(document).encode())
    catalog.drop("table", name)
    catalog.register("table", name, str(file))
    entry = changed(catalog, name, property_set("a", "1"))
    assert _document(catalog, entry)["from-the-future"] == document["from-the-future"]


def keeps_big_values(subject: Subject) -> None:
    """A property of many thousand characters of any script comes back as it was."""
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "orders")
    text = "é ' \" \\ % _ \n \t 😀 \u202e " * 5000
    a_table(catalog, name, properties={"big": text, text[:40]: ""})
    assert table_of(catalog, name).properties["big"] == text
    changed(catalog, name, u.SetProperties(FrozenDict({"empty": "", "big": text[::-1]})))
    found = table_of(catalog, name).properties
    assert (found["big"], found["empty"], found[text[:40]]) == (text[::-1], "", "")


def does_not_lose_a_table_without_its_metadata(subject: Subject) -> None:
    """A table whose metadata file is gone is an error that says so, and no free name."""
    catalog = subject.connect()
    name = Name(a_namespace(catalog), "orders")
    entry = a_table(catalog, name)
    store, at = catalog.store_for(entry), parse_location(entry.metadata_location)
    data = store.read(at)
    store.put(at, b"{ torn")
    refused(lambda: catalog.load("table", name))
    refused(lambda: changed(catalog, name, property_set("a", "1")))
    store.put(at, data)
    try:
        found = table_of(subject.connect(), name)
    except LakeplaneError as error:
        raise AssertionError("the table was lost") from error
    assert found == entry.metadata


METADATA_CHECKS: Final[tuple[Check, ...]] = (
    logs_every_metadata_file,
    limits_the_log,
    deletes_old_metadata_files,
    compresses_metadata,
    puts_metadata_where_it_is_told,
    keeps_unknown_fields,
    keeps_big_values,
    does_not_lose_a_table_without_its_metadata,
)
