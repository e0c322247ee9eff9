"""Metadata that other implementations test themselves with: what is valid there, and what they refuse."""

from __future__ import annotations

import ast
import functools
import json
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from lakeplane.errors import InvalidMetadata, UnsupportedVersion
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.metadata_json import parse_metadata, serialize_metadata
from lakeplane.iceberg.view import ViewMetadata, parse_view, serialize_view

Place: TypeAlias = tuple[str, int]

# What the valid files of iceberg-rust (some of them from Java) must be read as: format version, number of
# schemas, specs, orders and snapshots.
VALID_TABLES: dict[str, tuple[int, int, int, int, int]] = {
    # A v2 table right after its creation.
    "example_empty_table_metadata_v2.json": (2, 2, 1, 1, 0),
    # The example of most of its scan tests.
    "example_table_metadata_v2.json": (2, 2, 1, 1, 2),
    # Five snapshots, one after the other.
    "example_table_metadata_v2_deep_history.json": (2, 2, 1, 1, 5),
    # Partition specs that changed over time.
    "example_table_metadata_v2_partition_evolution.json": (2, 2, 3, 1, 3),
    # v1 as Java writes it, for old readers and new: each of schema and spec in both forms, and refs.
    "table_metadata/TableMetadataV1Compat.json": (1, 1, 1, 1, 1),
    # v1 with partition-specs but no default-spec-id.
    "table_metadata/TableMetadataV1PartitionSpecsWithoutDefaultId.json": (1, 1, 2, 1, 0),
    # v1 with schemas but no current-schema-id: schema counts.
    "table_metadata/TableMetadataV1SchemasWithoutCurrentId.json": (1, 1, 1, 1, 0),
    # The v1 example of Java: only schema and partition-spec.
    "table_metadata/TableMetadataV1Valid.json": (1, 1, 1, 1, 0),
    # The v2 example of Java.
    "table_metadata/TableMetadataV2Valid.json": (2, 2, 1, 1, 2),
    # The least that a v2 table has.
    "table_metadata/TableMetadataV2ValidMinimal.json": (2, 1, 1, 1, 0),
    # v3 with encryption keys.
    "table_metadata/TableMetadataV3ValidEncryption.json": (3, 1, 1, 1, 1),
    # The least that a v3 table has.
    "table_metadata/TableMetadataV3ValidMinimal.json": (3, 1, 1, 1, 0),
}
# What is wrong with the others: a part of the message.
INVALID_TABLES = {
    # Once a version of the future; by now a v3 table with the fields of v1.
    "table_metadata/TableMetadataUnsupportedVersion.json": "schemas: missing",
    # v1 with schemas, but neither current-schema-id nor schema.
    "table_metadata/TableMetadataV1NoValidSchema.json": "schema: neither",
    # The current schema is 2, there are 0 and 1.
    "table_metadata/TableMetadataV2CurrentSchemaNotFound.json": "current schema 2 is missing",
    # v2 without one of the fields that v2 requires.
    "table_metadata/TableMetadataV2MissingLastPartitionId.json": "last-partition-id: missing",
    "table_metadata/TableMetadataV2MissingPartitionSpecs.json": "partition-specs: missing",
    "table_metadata/TableMetadataV2MissingSchemas.json": "schemas: missing",
    "table_metadata/TableMetadataV2MissingSortOrder.json": "sort-orders: missing",
}
VALID_VIEWS = {
    # The first example of the view spec.
    "view_metadata/ViewMetadataV1Valid.json": (1, 1),
}
INVALID_VIEWS = {
    # Version 2 of the view format.
    "view_metadata/ViewMetadataUnsupportedVersion.json": "format-version: view format version 2",
    # The current version is 2, there is only 1.
    "view_metadata/ViewMetadataV1CurrentVersionNotFound.json": "current-version-id: there is no version 2",
    # No current-version-id at all.
    "view_metadata/ViewMetadataV1MissingCurrentVersion.json": "current-version-id: missing",
    # A version without schema-id; it has no current-version-id either.
    "view_metadata/ViewMetadataV1MissingSchema.json": "current-version-id: missing",
    # A version of a schema that is not there.
    "view_metadata/ViewMetadataV1SchemaNotFound.json": "there is no schema 2",
}
# Avro schemas of manifests, not metadata.
OTHER_FILES = {
    "avro_schema_manifest_entry.json",
    "avro_schema_manifest_file_v1.json",
    "avro_schema_manifest_file_v2.json",
}

# Tables that PyIceberg's tests hold as Python literals, and most of which it reads although v2 requires what
# is missing.
INVALID_LITERALS: dict[Place, str] = {
    # Fixed and decimal columns, and statistics of Arrow files: without sort-orders.
    ("conftest.py", 1001): "sort-orders: missing",
    ("io/test_pyarrow_stats.py", 83): "sort-orders: missing",
    ("io/test_pyarrow_stats.py", 423): "sort-orders: missing",
    ("io/test_pyarrow_stats.py", 577): "sort-orders: missing",
    # Examples of what PyIceberg refuses too: an unknown current schema, order or spec, ...
    ("table/test_metadata.py", 299): "sort-orders: missing",
    ("table/test_metadata.py", 383): "last-sequence-number: missing",
    ("table/test_metadata.py", 419): "the current partition spec 1 is missing",
    # ... and an unknown sort order, in v2 without last-sequence-number.
    ("table/test_metadata.py", 337): "last-sequence-number: missing",
}
VALID_LITERALS = 12
"""How many of PyIceberg's literals are valid; the others are listed above."""


def again(table: TableMetadata) -> TableMetadata:
    return parse_metadata(serialize_metadata(table, compress=True))


def test_every_file_of_iceberg_rust_has_its_place_in_a_table(vectors: Path) -> None:
    folder = vectors / "iceberg-rust"
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.json")}
    listed = [*VALID_TABLES, *INVALID_TABLES, *VALID_VIEWS, *INVALID_VIEWS, *OTHER_FILES]
    assert found == set(listed)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("name", VALID_TABLES)
def test_a_valid_table_is_read_and_written_as_the_same_value(vectors: Path, name: str) -> None:
    data = (vectors / "iceberg-rust" / name).read_bytes()
    table = parse_metadata(data, source=name)
    shape = (len(table.schemas), len(table.partition_specs), len(table.sort_orders), len(table.snapshots))
    assert (table.format_version, *shape) == VALID_TABLES[name]
    assert again(table) == table
    loses_nothing(json.loads(data), json.loads(serialize_metadata(table)))


def loses_nothing(before: Any, after: Any, place: str = "") -> None:
    """What was there is there again; only nulls, and main's -1, may have gone."""
    if isinstance(before, dict):
        for key, value in before.items():
            gone = value in (None, []) or (key, value) == ("current-snapshot-id", -1)
            if key not in after and (gone or key in ("schema", "schemas", "refs", "source-ids")):
                continue
            loses_nothing(value, after[key], f"{place}.{key}")
    elif isinstance(before, list):
        assert len(before) == len(after) or place == ".schemas", place
        for one, other in zip(before, after, strict=False):
            loses_nothing(one, other, place)
    elif place in (".last-column-id", ".last-partition-id"):
        assert after >= before, place  # PyIceberg has an example with a counter behind the ids in use
    elif isinstance(before, str) and place.endswith((".type", ".element", ".key", ".value")):
        assert before.replace(" ", "") == after.replace(" ", ""), place
    else:
        assert before == after, place


@pytest.mark.parametrize("name", INVALID_TABLES)
def test_an_invalid_table_is_refused_with_the_reason(vectors: Path, name: str) -> None:
    with pytest.raises(InvalidMetadata) as refusal:
        parse_metadata((vectors / "iceberg-rust" / name).read_bytes(), source=name)
    assert str(refusal.value).startswith(name)
    assert INVALID_TABLES[name] in str(refusal.value)


@pytest.mark.parametrize("name", VALID_VIEWS)
def test_a_valid_view_is_read_and_written_as_the_same_value(vectors: Path, name: str) -> None:
    data = (vectors / "iceberg-rust" / name).read_bytes()
    view = parse_view(data, source=name)
    assert (len(view.schemas), len(view.versions)) == VALID_VIEWS[name]
    assert parse_view(serialize_view(view, compress=True)) == view
    loses_nothing(json.loads(data), json.loads(serialize_view(view)))


@pytest.mark.parametrize("name", INVALID_VIEWS)
def test_an_invalid_view_is_refused_with_the_reason(vectors: Path, name: str) -> None:
    with pytest.raises(InvalidMetadata) as refusal:
        parse_view((vectors / "iceberg-rust" / name).read_bytes(), source=name)
    assert str(refusal.value).startswith(name)
    assert INVALID_VIEWS[name] in str(refusal.value)
    assert isinstance(refusal.value, UnsupportedVersion) == ("Unsupported" in name)


def test_the_encrypted_table_of_iceberg_rust_keeps_its_keys(vectors: Path) -> None:
    name = "table_metadata/TableMetadataV3ValidEncryption.json"
    data = (vectors / "iceberg-rust" / name).read_bytes()
    table, document = parse_metadata(data), json.loads(data)
    assert [key.key_id for key in table.encryption_keys] == [
        key["key-id"] for key in document["encryption-keys"]
    ]
    assert json.loads(serialize_metadata(table))["encryption-keys"] == document["encryption-keys"]


def test_a_view_is_no_table_and_a_table_is_no_view(vectors: Path) -> None:
    folder = vectors / "iceberg-rust"
    with pytest.raises(InvalidMetadata):
        parse_view((folder / "table_metadata/TableMetadataV1Valid.json").read_bytes())
    with pytest.raises(InvalidMetadata):
        parse_metadata((folder / "view_metadata/ViewMetadataV1Valid.json").read_bytes())


@functools.cache
def literals(folder: Path) -> dict[Place, dict[str, Any]]:
    """The metadata that PyIceberg's tests hold as dicts, by file and line."""
    found: dict[Place, dict[str, Any]] = {}
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        if "format-version" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Dict):
                continue
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if "format-version" not in keys or not keys & {"schema", "schemas"}:
                continue
            try:
                found[str(path.relative_to(folder)), node.lineno] = ast.literal_eval(node)
            except ValueError:  # made of variables
                continue
    return found


def read(document: dict[str, Any], place: Place) -> TableMetadata | ViewMetadata:
    data, source = json.dumps(document).encode(), ":".join(map(str, place))
    return parse_view(data, source=source) if "view-uuid" in document else parse_metadata(data, source=source)


def test_the_valid_literals_of_pyiceberg_are_read_and_written_as_the_same_value(vectors: Path) -> None:
    found = literals(vectors / "pyiceberg")
    valid = {place: document for place, document in found.items() if place not in INVALID_LITERALS}
    assert len(valid) == VALID_LITERALS
    assert {document["format-version"] for document in valid.values()} == {1, 2, 3}
    for place, document in valid.items():
        metadata = read(document, place)
        if isinstance(metadata, ViewMetadata):
            assert parse_view(serialize_view(metadata)) == metadata
            loses_nothing(document, json.loads(serialize_view(metadata)))
        else:
            assert again(metadata) == metadata
            if (current := document.get("current-snapshot-id", -1)) != -1:
                assert metadata.refs["main"].snapshot_id == metadata.current_snapshot_id == current
            # An empty list of orders is written with the one that sorts nothing, as the spec wants it.
            orders = document.get("sort-orders") or [{"order-id": 0, "fields": []}]
            loses_nothing({**document, "sort-orders": orders}, json.loads(serialize_metadata(metadata)))


@pytest.mark.parametrize("place", INVALID_LITERALS, ids=lambda place: ":".join(map(str, place)))
def test_a_literal_of_pyiceberg_that_breaks_the_spec_is_refused_with_the_reason(
    vectors: Path, place: Place
) -> None:
    with pytest.raises(InvalidMetadata) as refusal:
        read(literals(vectors / "pyiceberg")[place], place)
    assert INVALID_LITERALS[place] in str(refusal.value)
    assert refusal.value.source == ":".join(map(str, place))
