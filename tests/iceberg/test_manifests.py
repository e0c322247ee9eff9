from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pytest

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg.avro_schema import avro_record
from lakeplane.iceberg.manifest_list import (
    ManifestFile,
    inline_list,
    list_table,
    manifest_files,
    parse_manifest_list,
    publish_list,
    serialize_manifest_list,
)
from lakeplane.iceberg.manifest_schema import (
    ADDED,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    DELETED,
    EXISTING,
    FILE_COLUMNS,
    entry_avro,
    list_avro,
    list_fields,
)
from lakeplane.iceberg.manifest_write import write_manifest
from lakeplane.iceberg.manifests import Manifest, read_manifest
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.types import STRING, Field, Struct
from tests.iceberg.manifest_rows import (
    EARLIER,
    SNAPSHOT,
    data_rows,
    delete_rows,
    listed,
    older,
    plain_table,
    table,
    upgraded,
    writing,
)

VERSIONS = (1, 2, 3)
NUMBERS = ["status", "snapshot_id", "sequence_number", "file_sequence_number"]


def read(data: bytes, of: TableMetadata, **more: Any) -> Manifest:
    return read_manifest(data, listed("s3://m.avro", **more), of, columns=FILE_COLUMNS.names)


def write(rows: pa.Table, of: TableMetadata, content: int = DATA_MANIFEST) -> bytes:
    return write_manifest(rows, 0, content, "s3://m.avro", writing(of)).data


def by_fastavro(schema: dict[str, Any], records: list[dict[str, Any]], **metadata: str) -> bytes:
    """A file as another writer makes it, which checks nothing."""
    out = io.BytesIO()
    fastavro.writer(out, json.loads(json.dumps(schema)), records, metadata=metadata)
    return out.getvalue()


# What is written is read


@pytest.mark.parametrize("version", VERSIONS)
def test_entries_survive(version: int) -> None:
    of = table(version, nanos=version > 2)
    rows = data_rows(of, 7)
    found = read(write(rows, of), of, sequence_number=None)
    assert found.partition == of.partition_type(0)
    for name in rows.column_names:
        if name == "partition":
            for field in found.partition.fields:
                given = rows["partition"].combine_chunks().field(str(field.id))
                assert found.entries["partition"].combine_chunks().field(str(field.id)).equals(given), field
        else:
            assert found.entries[name].combine_chunks().equals(rows[name].combine_chunks()), name
    assert found.entries["snapshot_id"].to_pylist() == [SNAPSHOT] * 7


@pytest.mark.parametrize("version", [2, 3])
def test_entries_of_deletes_survive(version: int) -> None:
    of = table(version)
    more = {}
    if version > 2:
        more = {"content_offset": [4, None, None], "content_size_in_bytes": [40, None, None]}
    rows = delete_rows(of, 3, **more)
    found = read(write(rows, of, DELETE_MANIFEST), of, content=DELETE_MANIFEST)
    for name in set(rows.column_names) - {"partition"}:
        assert found.entries[name].to_pylist() == rows[name].to_pylist(), name
    assert found.entries["first_row_id"].null_count == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_lists_survive(version: int) -> None:
    of = table(version)
    made = write_manifest(data_rows(of, 3), 0, DATA_MANIFEST, "s3://a.avro", writing(of)).listed
    first = 100 if version > 2 else None
    number = 7 if version > 1 else 0
    given, _ = publish_list(list_table([made, listed("s3://b.avro", key_metadata=b"k")]), number, first)
    if version == 1:
        zeros = {"sequence_number": 0, "min_sequence_number": 0}
        given = list_table([msgspec.structs.replace(each, **zeros) for each in manifest_files(given)])
    data = serialize_manifest_list(
        given,
        format_version=version,
        snapshot_id=SNAPSHOT,
        parent_snapshot_id=None,
        sequence_number=number,
        first_row_id=first,
    )
    assert parse_manifest_list(data, "s3://list.avro").equals(given)


# Older files in newer tables


@pytest.mark.parametrize("now", [2, 3])
def test_v1_manifests_and_lists_are_older_than_all_numbers(now: int) -> None:
    before = plain_table(1)
    rows = pa.concat_tables(
        [
            data_rows(before, 2),
            data_rows(before, 1, status=[EXISTING], snapshot_id=[EARLIER]),
            data_rows(before, 1, status=[DELETED], snapshot_id=[SNAPSHOT]),
        ],
        promote_options="default",
    )
    made = write_manifest(rows, 0, DATA_MANIFEST, "s3://m.avro", writing(before))
    published, _ = publish_list(list_table([made.listed]), 0, None)
    data = serialize_manifest_list(
        published, format_version=1, snapshot_id=SNAPSHOT, parent_snapshot_id=None, sequence_number=0
    )
    [of_list] = manifest_files(parse_manifest_list(data, "s3://list.avro"))
    assert (of_list.sequence_number, of_list.min_sequence_number, of_list.content) == (0, 0, DATA_MANIFEST)
    assert of_list.first_row_id is None
    found = read_manifest(made.data, of_list, upgraded(before, now), columns=["file_path", "first_row_id"])
    assert found.entries.select([*NUMBERS, "content", "first_row_id"]).to_pylist() == [
        {
            "status": status,
            "snapshot_id": snapshot_id,
            "sequence_number": 0,
            "file_sequence_number": 0,
            "content": 0,
            "first_row_id": None,
        }
        for status, snapshot_id in [(1, SNAPSHOT), (1, SNAPSHOT), (0, EARLIER), (2, SNAPSHOT)]
    ]


def test_v2_manifests_in_v3_tables_have_row_ids_once_they_are_published_again() -> None:
    before = plain_table(2)
    made = write_manifest(data_rows(before, 3), 0, DATA_MANIFEST, "s3://m.avro", writing(before))
    old, _ = publish_list(list_table([made.listed]), 4, None)
    now = upgraded(before, 3)
    [not_yet] = manifest_files(old)
    assert read_manifest(made.data, not_yet, now).entries["first_row_id"].to_pylist() == [None] * 3
    new, taken = publish_list(old, 5, 0)
    [published] = manifest_files(new)
    assert (published.sequence_number, published.first_row_id, taken) == (4, 0, 33)
    found = read_manifest(made.data, published, now)
    assert found.entries["first_row_id"].to_pylist() == [0, 10, 21]
    assert found.entries["sequence_number"].to_pylist() == [4, 4, 4]


def test_a_v1_snapshot_names_its_manifests_itself() -> None:
    of = plain_table(1)
    made = write_manifest(data_rows(of, 2), 0, DATA_MANIFEST, "s3://m.avro", writing(of))
    [named] = manifest_files(inline_list(["s3://m.avro"]))
    assert named == ManifestFile(
        manifest_path="s3://m.avro",
        manifest_length=None,
        partition_spec_id=None,
        sequence_number=0,
        min_sequence_number=0,
        added_snapshot_id=None,
    )
    found = read_manifest(made.data, named, upgraded(of, 2))
    assert found.spec_id == 0
    assert (
        found.entries.select(NUMBERS).to_pylist()
        == [{"status": 1, "snapshot_id": SNAPSHOT, "sequence_number": 0, "file_sequence_number": 0}] * 2
    )


def test_counts_that_a_v1_list_does_not_tell_are_null() -> None:
    unknown: dict[str, Any] = {
        name: None for name in msgspec.structs.asdict(listed()) if name.endswith("_count")
    }
    plain = list_table([listed(sequence_number=0, min_sequence_number=0, **unknown)])
    data = serialize_manifest_list(
        plain, format_version=1, snapshot_id=1, parent_snapshot_id=None, sequence_number=0
    )
    [found] = manifest_files(parse_manifest_list(data, "s3://list.avro"))
    assert {getattr(found, name) for name in unknown} == {None}
    fewer = [field for field in list_fields(1) if field.name not in unknown]
    records = [{"manifest_path": "a", "manifest_length": 1, "partition_spec_id": 0, "added_snapshot_id": 3}]
    older_list = by_fastavro(avro_record("manifest_file", fewer), records)
    [found] = manifest_files(parse_manifest_list(older_list, "s3://list.avro"))
    assert {getattr(found, name) for name in unknown} == {None}


@pytest.mark.parametrize("name", ["manifest-list-v2-1.avro", "manifest-list-v2-2.avro"])
def test_lists_of_other_implementations_are_read(vectors: Path, name: str) -> None:
    data = (vectors / "iceberg-rust/manifests_lists" / name).read_bytes()
    found = parse_manifest_list(data, name).to_pylist()
    records: list[Any] = list(fastavro.reader(io.BytesIO(data)))
    # Early writers had other names; fields go by their ids.
    expected = [{key.replace("_data_files", "_files"): each[key] for key in each} for each in records]
    assert expected
    assert [
        {key: row[key] for key in record} for row, record in zip(found, expected, strict=True)
    ] == expected


def test_an_encrypted_list_is_no_avro_file(vectors: Path) -> None:
    data = (vectors / "iceberg-rust/manifests_lists/manifest-list-v3-encrypted.avro").read_bytes()
    with pytest.raises(InvalidMetadata, match=r"encrypted\.avro"):
        parse_manifest_list(data, "encrypted.avro")


# Inheritance


def test_added_entries_are_as_old_as_their_manifest() -> None:
    of = plain_table()
    rows = pa.concat_tables(
        [
            data_rows(of, 1, sequence_number=[None], snapshot_id=[None]),
            data_rows(
                of, 1, sequence_number=[3], snapshot_id=[None]
            ),  # rewritten, and no younger than before
            data_rows(of, 1, **older(1)),
            data_rows(of, 1, **older(1, DELETED)),
        ],
        promote_options="default",
    )
    data = write(rows, of)
    found = read(data, of, sequence_number=7)
    numbers = [(1, SNAPSHOT, 7, 7), (1, SNAPSHOT, 3, 7), (0, EARLIER, 5, 6), (2, SNAPSHOT, 5, 6)]
    expected = [dict(zip(NUMBERS, each, strict=True)) for each in numbers]
    assert found.entries.select(NUMBERS).to_pylist() == expected


def test_the_snapshot_is_inherited() -> None:
    of = plain_table()
    records = [entry(snapshot_id=None), entry(snapshot_id=EARLIER, file_path="b")]
    data = by_fastavro(entry_avro(2, Struct(())), records)
    found = read(data, of, added_snapshot_id=77)
    assert found.entries["snapshot_id"].to_pylist() == [77, EARLIER]


def test_a_manifest_that_is_not_published_yet_hands_down_no_numbers() -> None:
    """Harm: new files that were merged in the commit which adds them became older than all deletes."""
    of = plain_table(3)
    more = {**older(2), "first_row_id": [50, None]}
    rows = pa.concat_tables([data_rows(of, 1), data_rows(of, 2, **more)], promote_options="default")
    made = write_manifest(rows, 0, DATA_MANIFEST, "s3://m.avro", writing(of))
    found = read_manifest(made.data, made.listed, of).entries
    assert found["sequence_number"].to_pylist() == [None, 5, 5]
    assert found["file_sequence_number"].to_pylist() == [None, 6, 6]
    assert found["first_row_id"].to_pylist() == [None, 50, None]


# The example in "Row lineage example" of the spec.
def test_row_ids_are_those_of_the_example_in_the_spec() -> None:
    def manifest(path: str, added: int, existing: int, first_row_id: int | None = None) -> ManifestFile:
        rows = {"added_rows_count": added, "existing_rows_count": existing}
        return listed(path, sequence_number=None, first_row_id=first_row_id, **rows)

    manifests = [
        manifest("existing", 75, 0, 925),
        manifest("added1", 100, 25),
        manifest("added2", 0, 100),
        manifest("added3", 125, 25),
    ]
    published, taken = publish_list(list_table(manifests), 9, 1000)
    assert published["first_row_id"].to_pylist() == [925, 1000, 1125, 1225]
    assert 1000 + taken == 1375

    of = plain_table(3)
    rows = pa.concat_tables(
        [
            data_rows(of, 1, **older(1), record_count=[25], first_row_id=[800]),
            data_rows(of, 2, record_count=[50, 50]),
        ],
        promote_options="default",
    )
    found = read(write(rows, of), of, first_row_id=1000)
    assert found.entries["first_row_id"].to_pylist() == [800, 1000, 1050]


def test_existing_files_of_upgraded_tables_get_row_ids_and_deleted_ones_none() -> None:
    of = plain_table(3)
    rows = pa.concat_tables(
        [
            data_rows(of, 2, **older(2), record_count=[10, 20]),
            data_rows(of, 1, **older(1, DELETED), record_count=[40]),
            data_rows(of, 1, record_count=[80]),
        ],
        promote_options="default",
    )
    found = read(write(rows, of), of, first_row_id=1000)
    assert found.entries["first_row_id"].to_pylist() == [1000, 1010, None, 1030]


def test_snapshots_from_before_the_upgrade_have_no_row_ids() -> None:
    of = plain_table(3)
    rows = data_rows(of, 2, first_row_id=[5, None])
    assert read(write(rows, of), of, first_row_id=None).entries["first_row_id"].to_pylist() == [None, None]


def test_manifests_of_deletes_take_no_row_ids() -> None:
    manifests = [listed("d", content=DELETE_MANIFEST), listed("m")]
    published, taken = publish_list(list_table(manifests), 9, 1000)
    assert published["first_row_id"].to_pylist() == [None, 1000]
    assert taken == 30


# Broken files


def entry(**changes: Any) -> dict[str, Any]:
    """A record of a v2 manifest; what is given replaces a field wherever it is."""
    file = {
        "content": 0,
        "file_path": "a",
        "file_format": "PARQUET",
        "partition": {},
        "record_count": 1,
        "file_size_in_bytes": 1,
    }
    whole: dict[str, Any] = {"status": ADDED, "snapshot_id": SNAPSHOT, "data_file": file}
    for name, value in changes.items():
        (whole if name in NUMBERS else file)[name] = value
    return whole


def loose(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema in which every field may be null."""
    for field in schema["fields"]:
        if field["name"] == "data_file":
            loose(field["type"])
        elif not isinstance(field["type"], list):
            field["type"] = ["null", field["type"]]
    return schema


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"status": None}, "status", "an entry has none"),
        ({"status": 3}, "status", "none of 0, 1 and 2"),
        ({"status": -1}, "status", "none of 0, 1 and 2"),
        ({"file_path": None}, "file_path", "an entry has none"),
        ({"file_format": None}, "file_format", "an entry has none"),
        ({"record_count": None}, "record_count", "an entry has none"),
        ({"file_size_in_bytes": None}, "file_size_in_bytes", "an entry has none"),
        ({"record_count": -1}, "record_count", "negative"),
        ({"file_size_in_bytes": -5}, "file_size_in_bytes", "negative"),
        ({"content": 1}, "content", "does not belong among data"),
        ({"content": 2}, "content", "does not belong among data"),
        ({"content": -1}, "content", "does not belong among data"),
        ({"status": EXISTING}, "sequence_number", "an entry that is not new has none"),
        ({"record_count": 2**63 - 1}, "first_row_id", "more rows than ids"),
    ],
)
def test_broken_entries_are_refused(changes: dict[str, Any], field: str, problem: str) -> None:
    data = by_fastavro(loose(entry_avro(2, Struct(()))), [entry(), entry(**changes)])
    with pytest.raises(InvalidMetadata, match=rf"^s3://m\.avro: {field}: .*{problem}"):
        read(data, plain_table(3), first_row_id=0)


@pytest.mark.parametrize("content", [0, 3, None])
def test_data_is_not_taken_for_deletes(content: int | None) -> None:
    data = by_fastavro(loose(entry_avro(2, Struct(()))), [entry(content=1), entry(content=content)])
    with pytest.raises(InvalidMetadata, match=r"^s3://m\.avro: content: .*does not belong among deletes"):
        read(data, plain_table(), content=DELETE_MANIFEST)


@pytest.mark.parametrize("missing", ["status", "file_path", "record_count", "data_file"])
def test_a_schema_without_what_is_required_is_refused(missing: str) -> None:
    schema, record = entry_avro(2, Struct(())), entry()
    [data_file] = [field for field in schema["fields"] if field["name"] == "data_file"]
    for holder in (schema, data_file["type"]):
        holder["fields"] = [field for field in holder["fields"] if field["name"] != missing]
    with pytest.raises(InvalidMetadata, match=r"^s3://m\.avro"):
        read(by_fastavro(schema, [record]), plain_table())


def test_a_manifest_must_be_what_it_is_listed_as() -> None:
    """Harm: deletes that are read as data would be rows."""
    of = plain_table()
    with pytest.raises(InvalidMetadata, match=r"^s3://m\.avro: content: .*'data', and says b'deletes'"):
        read(write(delete_rows(of, 1), of, DELETE_MANIFEST), of)
    with pytest.raises(InvalidMetadata, match=r"^s3://m\.avro: content: .*'deletes', and says b'data'"):
        read(write(data_rows(of, 1), of), of, content=DELETE_MANIFEST)


def test_a_spec_that_the_table_does_not_have_is_refused() -> None:
    of = plain_table()
    data = write(data_rows(of, 1), of)
    with pytest.raises(InvalidMetadata, match=r"^s3://m\.avro: partition_spec_id: .*no partition spec 9"):
        read(data, of, partition_spec_id=9)


@pytest.mark.parametrize("text", ["x", "-1", "", "9" * 5000])
def test_a_manifest_that_misspells_its_spec_is_refused(text: str) -> None:
    data = by_fastavro(entry_avro(1, Struct(())), [], **{"partition-spec-id": text})
    with pytest.raises(InvalidMetadata, match=r"^s3://m\.avro: partition-spec-id: not a spec id"):
        read(data, plain_table(1), partition_spec_id=None)


def record(**changes: Any) -> dict[str, Any]:
    plain = {key: value for key, value in msgspec.structs.asdict(listed("a")).items() if value is not None}
    return {**plain, **changes}


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        *(
            ({name: None}, name, "without it")
            for name in ("manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id")
        ),
        *(
            ({name: -1}, name, "negative")
            for name in (
                "manifest_length",
                "sequence_number",
                "min_sequence_number",
                "added_files_count",
                "existing_files_count",
                "deleted_files_count",
                "added_rows_count",
                "existing_rows_count",
                "deleted_rows_count",
                "first_row_id",
            )
        ),
        ({"content": 2}, "content", "none of 0 and 1"),
        ({"content": -1}, "content", "none of 0 and 1"),
        ({"manifest_path": "first"}, "manifest_path", "listed twice"),
    ],
)
def test_broken_lists_are_refused(changes: dict[str, Any], field: str, problem: str) -> None:
    data = by_fastavro(loose(list_avro(3)), [record(manifest_path="first"), record(**changes)])
    with pytest.raises(InvalidMetadata, match=rf"^s3://list\.avro: {field}: .*{problem}"):
        parse_manifest_list(data, "s3://list.avro")


def test_a_summary_that_does_not_tell_of_nulls_is_refused() -> None:
    """A broken summary is an error of ours, not of a library."""
    schema = list_avro(2)
    [partitions] = [field for field in schema["fields"] if field["name"] == "partitions"]
    loose(partitions["type"][1]["items"])
    data = by_fastavro(schema, [record(partitions=[{"contains_null": None}])])
    with pytest.raises(InvalidMetadata, match=r"^s3://list\.avro: partitions: a summary"):
        parse_manifest_list(data, "s3://list.avro")


def test_a_column_of_another_type_is_refused() -> None:
    schema = list_avro(2)
    schema["fields"][1]["type"] = "string"
    data = by_fastavro(schema, [record(manifest_length="long")])
    with pytest.raises(InvalidMetadata, match=r"s3://list\.avro"):
        parse_manifest_list(data, "s3://list.avro")


def test_files_may_have_more_fields_than_are_known() -> None:
    schema = list_avro(2)
    schema["fields"].append(avro_record("x", [Field(9999, "new", STRING)])["fields"][0])
    data = by_fastavro(schema, [record(new="x")])
    assert parse_manifest_list(data, "s3://list.avro").num_rows == 1
