"""The schema of a table: its fields, keys and options, as the files ``schema-<N>`` hold them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lakeplane.errors import InvalidMetadata, UnsupportedVersion
from lakeplane.model import json_files, records
from lakeplane.model.frozen import EMPTY, FrozenDict
from lakeplane.model.records import Int, Long, Record, Strings
from lakeplane.model.schema import Schema
from lakeplane.paimon.options import TableOptions, parse_options
from lakeplane.paimon.snapshots import SMALL_FILE
from lakeplane.paimon.types import DataField, DataType, fields_json, model_fields, parse_fields, walk

SCHEMA_VERSION: Final = 3
_OPTIONS_OF_OLD: Final = {
    # Before these options had other defaults, schema files did not tell them.
    1: {"bucket": "1", "file.format": "orc"},
    2: {"file.format": "orc"},
}


class _Told(Record, frozen=True, kw_only=True, rename="camel"):
    """A schema file, but for its fields."""

    version: Int = msgspec.field(default_factory=lambda: 1)
    id: Long
    highest_field_id: Int
    partition_keys: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    primary_keys: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    options: Strings = msgspec.field(default_factory=lambda: EMPTY)
    comment: str | None = None
    time_millis: Long = msgspec.field(default_factory=int)


class TableSchema(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a table is at one point of its history. Data files name the schema they were written with."""

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Strings = EMPTY
    comment: str | None = None
    time_millis: int = 0
    version: int = SCHEMA_VERSION
    unknown: FrozenDict[str, Any] = EMPTY

    @functools.cached_property
    def settings(self) -> TableOptions:
        """The options, with what old schema files mean without saying so."""
        return parse_options({**_OPTIONS_OF_OLD.get(self.version, {}), **self.options})

    @functools.cached_property
    def model(self) -> Schema:
        """The fields as those of any table."""
        keys = tuple(self.field(name).id for name in self.primary_keys)
        return Schema(model_fields(self.fields), self.id, keys)

    @functools.cached_property
    def _by_name(self) -> dict[str, DataField]:
        return {each.name: each for each in self.fields}

    @functools.cached_property
    def by_id(self) -> dict[int, DataField]:
        """The fields of the table by their ids."""
        return {each.id: each for each in self.fields}

    def field(self, name: str) -> DataField:
        """The field with a name."""
        found = self._by_name.get(name)
        if found is None:
            raise InvalidMetadata(f"there is no field {name!r:.80}", field=f"schema {self.id}")
        return found

    def has(self, name: str) -> bool:
        """Whether there is a field with a name."""
        return name in self._by_name

    def types_of(self, names: tuple[str, ...]) -> tuple[DataType, ...]:
        """The types of some fields."""
        return tuple(self.field(name).type for name in names)

    @property
    def has_primary_key(self) -> bool:
        """Whether rows replace others with the same key."""
        return bool(self.primary_keys)

    @functools.cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without what all rows of a partition have in common: what files are sorted by."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @functools.cached_property
    def bucket_keys(self) -> tuple[str, ...]:
        """The fields that decide about the bucket of a row; none where the table does not say."""
        return self.settings.bucket_keys or self.trimmed_primary_keys

    @property
    def cross_partition(self) -> bool:
        """Whether a row may replace one in another partition."""
        return self.has_primary_key and not set(self.partition_keys) <= set(self.primary_keys)


def parse_schema(data: bytes, source: str) -> TableSchema:
    """Read a schema file; ``source`` names it in errors."""
    return json_files.decode(data, _read, source=source, limits=SMALL_FILE)


def _read(raw: Mapping[str, Any]) -> TableSchema:
    told = records.read(_Told, {key: value for key, value in raw.items() if key != "fields"}, "")
    if told.version > SCHEMA_VERSION:
        problem = f"schemas of version {told.version} are newer than this release"
        raise UnsupportedVersion(problem, field="version", hint="Upgrade lakeplane")
    values = {name: getattr(told, name) for name in told.__struct_fields__}
    schema = TableSchema(fields=parse_fields(raw.get("fields"), "fields"), **values)
    check_schema(schema)
    return schema


def check_schema(schema: TableSchema) -> None:
    """Refuse a schema that nobody could read rows by."""
    fields = list(walk(schema.fields))
    for what, values in (
        ("id", [each.id for each in fields]),
        ("name", [each.name for each in schema.fields]),
    ):
        double = [value for value, count in Counter(values).items() if count > 1]
        if double:
            raise InvalidMetadata(f"two fields have the {what} {double[0]!r:.80}", field="fields")
    for place, names in (("partitionKeys", schema.partition_keys), ("primaryKeys", schema.primary_keys)):
        if len(set(names)) != len(names):
            raise InvalidMetadata(f"a field is named twice: {', '.join(names)}", field=place)
        for name in names:
            if not schema.has(name):
                raise InvalidMetadata(f"there is no field {name!r:.80}", field=place)
    if schema.primary_keys and not schema.trimmed_primary_keys:
        problem = "the primary key has nothing but partition keys, so that a partition could have one row"
        raise InvalidMetadata(problem, field="primaryKeys")
    for name in schema.settings.bucket_keys:
        if not schema.has(name):
            raise InvalidMetadata(f"there is no field {name!r:.80}", field="options.bucket-key")


def serialize_schema(schema: TableSchema) -> bytes:
    """Write a schema file: indented, and in the order of other writers."""
    names = [each.name for each in msgspec.structs.fields(_Told)]
    told = records.write(_Told(**{name: getattr(schema, name) for name in names}))
    head = {key: told.pop(key) for key in ("version", "id")}
    document = {**head, "fields": fields_json(schema.fields), **told}
    return msgspec.json.format(json_files.encode(document), indent=2)
