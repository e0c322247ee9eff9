from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidChange, InvalidInput, InvalidMetadata, LimitExceeded, UnsupportedVersion
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.view import ViewMetadata, apply_to_view, check_view, parse_view, serialize_view
from lakeplane.iceberg.view_versions import Representation, VersionLogEntry, ViewVersion
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.json_files import Limits
from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, STRING, TIMESTAMP_NS, Field
from tests.iceberg.documents import Json, Path, at, objects, places, put, view, view_document

NOW = 1_700_000_000_000
SOURCE = "s3://bucket/warehouse/default.db/event_agg/metadata/00001.metadata.json"
UUID = "fa6506c3-7681-40c8-86dc-e36561f83385"


def second_document() -> Json:
    """The second example of the view spec: the SQL names its table in full."""
    document = view_document(current_version_id=2)
    version = json.loads(json.dumps(document["versions"][0]))
    version["version-id"] = 2
    version["timestamp-ms"] = 1573518981593
    version["representations"][0]["sql"] = version["representations"][0]["sql"].replace(
        "events", "prod.default.events"
    )
    document["versions"].append(version)
    document["version-log"].append({"timestamp-ms": 1573518981593, "version-id": 2})
    return document


def parse(document: Any) -> ViewMetadata:
    return parse_view(json.dumps(document).encode(), source=SOURCE)


def written(value: ViewMetadata) -> Json:
    document: Json = json.loads(serialize_view(value))
    return document


def sql(text: str, dialect: str = "spark") -> Representation:
    return Representation(type="sql", sql=text, dialect=dialect)


def version(*texts: Representation | str, version_id: int = 1, **changes: Any) -> ViewVersion:
    whole: dict[str, Any] = {
        "version_id": version_id,
        "schema_id": 0,
        "timestamp_ms": version_id * 1000,
        "summary": FrozenDict(),
        "representations": tuple(sql(each) if isinstance(each, str) else each for each in texts),
        "default_namespace": ("ns",),
        **changes,
    }
    return ViewVersion(**whole)


def change(base: ViewMetadata | None, *updates: u.ViewUpdate, now_ms: int = NOW) -> ViewMetadata:
    return apply_to_view(base, updates, now_ms=now_ms)


def refused(base: ViewMetadata | None, *updates: u.ViewUpdate) -> InvalidChange:
    with pytest.raises(InvalidChange) as caught:
        change(base, *updates)
    return caught.value


def with_version(base: ViewMetadata, new: ViewVersion, **options: int) -> ViewMetadata:
    return change(base, u.AddViewVersion(new), u.SetCurrentViewVersion(), **options)


def log_of(value: ViewMetadata) -> list[int]:
    return [entry.version_id for entry in value.version_log]


def ids_of(value: ViewMetadata) -> list[int]:
    return [each.version_id for each in value.versions]


CREATION: tuple[u.ViewUpdate, ...] = (
    u.AssignUuid(UUID),
    u.SetLocation("s3://b/wh/v"),
    u.AddSchema(Schema((Field(1, "x", LONG),))),
    u.AddViewVersion(version("SELECT 1")),
    u.SetCurrentViewVersion(),
)


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", [view_document(), second_document()], ids=["first", "second"])
def test_the_examples_of_the_spec_are_written_as_they_were_read(document: Json) -> None:
    read = parse(document)
    assert written(read) == document
    assert parse_view(serialize_view(read, compress=True)) == read
    assert gzip.decompress(serialize_view(read, compress=True)) == serialize_view(read)
    assert hash(read) == hash(parse(document))


def test_the_second_example_says_what_the_first_did_not() -> None:
    read = parse(second_document())
    assert read.current_version.version_id == 2
    assert read.schema.schema_id == 1
    assert read.current_version.default_catalog == "prod"
    assert read.current_version.sql_for("SPARK") == read.current_version.representations[0].sql
    assert read.current_version.sql_for("trino") is None
    assert "prod.default.events" in (read.current_version.sql_for("spark") or "")
    assert read.version(1).timestamp_ms == 1573518431292
    with pytest.raises(InvalidInput, match="no version 3"):
        read.version(3)


def test_the_second_example_follows_from_the_first_by_updates() -> None:
    second = parse(second_document())
    assert with_version(view(), second.current_version) == second


def test_unknown_fields_are_kept_at_every_level() -> None:
    document = second_document()
    spots = [path for path in objects(document) if not path or path[-1] not in ("properties", "summary")]
    for path in spots:
        document = put(document, (*path, "x-future"), {"deep": [1, None]})
    kept = written(parse(document))
    assert len(spots) > 9
    for path in spots:
        assert at(kept, (*path, "x-future")) == {"deep": [1, None]}, path
    changed = change(parse(document), u.SetProperties(FrozenDict({"a": "b"})))
    assert at(written(changed), ("versions", 0, "representations", 0, "x-future")) == {"deep": [1, None]}


def test_a_representation_of_the_future_is_kept() -> None:
    future = {"type": "dataframe", "code": "spark.range(1)"}
    document = view_document()
    document["versions"][0]["representations"].append(future)
    assert written(parse(document)) == document


def test_properties_and_default_catalog_are_optional() -> None:
    document = put(view_document(properties=...), ("versions", 0, "default-catalog"), ...)
    read = parse(document)
    assert dict(read.properties) == {}
    assert read.current_version.default_catalog is None
    assert parse(put(document, ("versions", 0, "default-catalog"), None)) == read
    assert parse(written(read)) == read


REQUIRED: list[Path] = [
    *((each,) for each in view_document() if each != "properties"),
    *(("versions", 0, each) for each in view_document()["versions"][0] if each != "default-catalog"),
    *(("versions", 0, "representations", 0, each) for each in ("type", "sql", "dialect")),
    *(("version-log", 0, each) for each in ("timestamp-ms", "version-id")),
    *(("schemas", 0, "fields", 0, each) for each in ("id", "name", "required", "type")),
]


@pytest.mark.parametrize("path", REQUIRED, ids=lambda path: ".".join(map(str, path)))
def test_a_required_field_that_is_missing_is_refused_by_name(path: Path) -> None:
    with pytest.raises(InvalidMetadata) as refusal:
        parse(put(view_document(), path, ...))
    assert str(path[-1]) in str(refusal.value)
    assert refusal.value.source == SOURCE


@pytest.mark.parametrize("number", [0, 2, -1, None, "1", 1.0, True, ...])
def test_another_format_version_is_refused(number: Any) -> None:
    with pytest.raises(UnsupportedVersion) as refusal:
        parse(view_document(format_version=number))
    assert refusal.value.field == "format-version"


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("current-version-id",), 9, "there is no version 9"),
        (("versions", 0, "schema-id"), 9, "there is no schema 9"),
        (("versions",), [], "there is no version 1"),
        (("schemas",), [], "schemas"),
        (("versions",), [view_document()["versions"][0]] * 2, "two versions"),
        (("schemas",), view_document()["schemas"] * 2, "two schemas"),
        (("versions", 0, "representations", 0, "sql"), "", "needs its sql"),
        (("versions", 0, "default-namespace"), "ns", "default-namespace"),
        (("versions", 0, "summary"), {"a": 1}, "summary"),
        (("properties",), {"a": 1}, "properties"),
        (("location",), "", "location"),
        (("view-uuid",), "", "view-uuid"),
    ],
)
def test_a_view_that_contradicts_itself_is_refused(path: Path, value: Any, problem: str) -> None:
    with pytest.raises(InvalidMetadata) as refusal:
        parse(put(view_document(), path, value))
    assert problem in str(refusal.value)
    assert refusal.value.field


STRANGE: list[Any] = [
    *(None, True, -1, 2**31, 2**70, 1.5, "", "x", [], [None], [[]], {}, {"type": []}),
    "9" * 5000,
]


def test_a_wrong_type_anywhere_is_a_typed_error_that_names_the_place() -> None:
    document = second_document()
    for path in places(document):
        for value in STRANGE:
            try:
                read = parse(put(document, path, value))
            except InvalidMetadata as error:
                assert error.source == SOURCE  # noqa: PT017 - it may also be read
                assert error.field, (path, value)  # noqa: PT017 - it may also be read
            else:
                assert parse(written(read)) == read


@given(data=st.data(), compress=st.booleans())
def test_a_damaged_file_is_refused_or_read_but_never_a_crash(data: st.DataObject, *, compress: bool) -> None:
    damaged = bytearray(serialize_view(view(), compress=compress))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        read = parse_view(bytes(damaged))
    except InvalidMetadata:
        return
    assert parse_view(serialize_view(read)) == read


def test_limits_hold_for_views_too() -> None:
    data = serialize_view(view())
    assert parse_view(data, limits=Limits(size=len(data))) == view()
    for bad, limits in [
        (data, Limits(size=len(data) - 1)),
        (gzip.compress(b" " * (64 << 20)), Limits()),
        (b'{"a":' + b"[" * 100_000, Limits()),
        (data, Limits(items=0)),
    ]:
        with pytest.raises(LimitExceeded) as refusal:
            parse_view(bad, source=SOURCE, limits=limits)
        assert refusal.value.source == SOURCE


# --- creation -----------------------------------------------------------------------------------------------


def test_a_view_is_made_of_updates() -> None:
    made = change(None, *CREATION)
    assert (made.view_uuid, made.location, made.format_version) == (UUID, "s3://b/wh/v", 1)
    assert (made.current_version_id, made.schema.schema_id) == (1, 0)
    assert made.version_log == (VersionLogEntry(timestamp_ms=1000, version_id=1),)
    assert parse(written(made)) == made
    check_view(made)


@pytest.mark.parametrize("left_out", range(len(CREATION)))
def test_a_new_view_needs_each_part(left_out: int) -> None:
    refused(None, *(update for position, update in enumerate(CREATION) if position != left_out))


def test_a_uuid_is_for_life() -> None:
    assert change(view(), u.AssignUuid(UUID)) == view()
    assert refused(view(), u.AssignUuid("9c12d441-03fe-4693-9a96-a0705ddf69c1")).field == "view-uuid"
    refused(None, u.AssignUuid(""), *CREATION[1:])


@pytest.mark.parametrize("number", [0, 2, 23])
def test_there_is_one_format_version(number: int) -> None:
    assert refused(view(), u.UpgradeFormatVersion(number)).field == "format-version"
    base = view()
    assert change(base, u.UpgradeFormatVersion(1)) is base


# --- versions -----------------------------------------------------------------------------------------------


def test_updates_with_nothing_to_do_give_back_the_same_value() -> None:
    base = parse(second_document())
    for updates in (
        (),
        (u.SetCurrentViewVersion(2),),
        (u.SetCurrentViewVersion(1), u.SetCurrentViewVersion(2)),
        (u.AddSchema(base.schema),),
        (u.AddViewVersion(base.current_version), u.SetCurrentViewVersion()),
        (u.SetProperties(FrozenDict()), u.RemoveProperties(("nothing",))),
        (u.SetLocation(base.location),),
        (u.AssignUuid(base.view_uuid), u.UpgradeFormatVersion(1)),
    ):
        assert change(base, *updates) is base


def test_versions_and_schemas_get_the_next_ids() -> None:
    base = view()
    added = change(base, u.AddSchema(Schema((Field(1, "y", STRING),), schema_id=77)))
    assert [schema.schema_id for schema in added.schemas] == [1, 2]
    third = change(added, u.AddSchema(Schema((Field(1, "z", STRING),))))
    assert [schema.schema_id for schema in third.schemas] == [1, 2, 3]
    new = with_version(added, version("SELECT 'y'", version_id=1, schema_id=2))
    assert ids_of(new) == [1, 2]
    assert (new.current_version_id, new.schema.find("y").type) == (2, STRING)


def test_the_schemas_of_a_new_view_are_numbered_from_0() -> None:
    # As in viewVersionAndSchemaIDReassignment of Java's TestViewMetadata.
    letters = {5: "x", 7: "y", 9: "z"}
    schemas = [u.AddSchema(Schema((Field(1, name, LONG),), schema_id=each)) for each, name in letters.items()]
    versions = [u.AddViewVersion(version(f"SELECT {each}", schema_id=each)) for each in letters]
    made = change(None, *CREATION[:2], *schemas, *versions, *schemas, u.SetCurrentViewVersion())
    assert [(each.schema_id, each.fields[0].name) for each in made.schemas] == [(0, "x"), (1, "y"), (2, "z")]
    assert [(each.version_id, each.schema_id) for each in made.versions] == [(1, 0), (2, 1), (3, 2)]


def test_a_schema_that_the_view_has_is_meant_by_its_own_id() -> None:
    other = u.AddSchema(Schema((Field(1, "y", STRING),), schema_id=1))
    changed = change(view(), other, u.AddViewVersion(version("SELECT 'y'", schema_id=1)))
    assert changed.versions[-1].schema_id == 1


def test_a_version_keeps_an_id_that_is_above_all_others() -> None:
    # So do Java's views: a client that has numbered its version can make it current by that number.
    base = change(None, *CREATION)
    made = change(base, u.AddViewVersion(version("SELECT 2", version_id=7)), u.SetCurrentViewVersion(7))
    assert (ids_of(made), made.current_version_id) == ([1, 7], 7)
    assert ids_of(with_version(made, version("SELECT 3", version_id=3))) == [1, 7, 8]


def test_a_version_may_name_the_schema_added_with_it() -> None:
    new = change(
        view(),
        u.AddSchema(Schema((Field(1, "y", STRING),))),
        u.AddViewVersion(version("SELECT 'y'", schema_id=u.LAST_ADDED)),
        u.SetCurrentViewVersion(),
    )
    assert new.current_version.schema_id == 2


@pytest.mark.parametrize(
    ("updates", "problem"),
    [
        ((u.SetCurrentViewVersion(),), "no version was added"),
        ((u.SetCurrentViewVersion(9),), "the view has no version 9"),
        ((u.AddViewVersion(version("SELECT 1", schema_id=u.LAST_ADDED)),), "no schema was added"),
        ((u.AddViewVersion(version("SELECT 1", schema_id=23)),), "the view has no schema 23"),
        ((u.AddViewVersion(version()),), "needs a representation"),
        ((u.AddViewVersion(version(Representation(type="sql", sql="SELECT 1"))),), "its dialect"),
        ((u.AddViewVersion(version(Representation(type="sql", dialect="spark"))),), "its sql"),
        ((u.AddViewVersion(version(sql("SELECT 1"), sql("SELECT 2", "SpArK"))),), "two representations"),
        ((u.AddSchema(Schema((Field(1, "x", LONG), Field(1, "y", LONG)))),), "used twice"),
        ((u.AddSchema(Schema((Field(1, "x", LONG), Field(2, "x", LONG)))),), "'x'"),
    ],
)
def test_a_change_that_cannot_be_is_refused(updates: tuple[u.ViewUpdate, ...], problem: str) -> None:
    assert problem in refused(view(), *updates).problem


def test_an_update_of_tables_is_refused() -> None:
    update: Any = u.RemoveSnapshots((1,))
    assert "RemoveSnapshots" in refused(view(), update).problem


def test_columns_may_have_the_types_of_the_newest_tables() -> None:
    assert change(view(), u.AddSchema(Schema((Field(1, "ns", TIMESTAMP_NS),)))).schemas[-1].schema_id == 2


def test_versions_that_differ_only_in_their_time_are_one() -> None:
    base = change(None, *CREATION)
    assert with_version(base, version("SELECT 1", version_id=5)) is base
    for other in (
        version("SELECT 2"),
        version("SELECT 1", summary=FrozenDict({"user": "some-user"})),
        version("SELECT 1", default_namespace=("other",)),
        version("SELECT 1", default_catalog="c"),
        version("SELECT 1", sql("SELECT 1", "trino")),
    ):
        assert ids_of(with_version(base, other)) == [1, 2]


def test_a_view_with_two_definitions_for_a_dialect_can_be_read_and_mended() -> None:
    # Writers were once allowed to do that: Java reads such views, and so that nobody is locked out of a view
    # refuses only to add such versions.
    document = view_document()
    document["versions"][0]["representations"] *= 2
    broken = parse(document)
    assert written(broken) == document
    mended = with_version(broken, version("SELECT 1", schema_id=1))
    assert mended.current_version.sql_for("spark") == "SELECT 1"


# --- the log ------------------------------------------------------------------------------------------------


def test_the_log_tells_when_a_version_became_the_current_one() -> None:
    base = change(
        None,
        *CREATION[:4],
        u.AddViewVersion(version("SELECT 2", version_id=2)),
        u.SetCurrentViewVersion(1),
    )
    assert [(each.version_id, each.timestamp_ms) for each in base.version_log] == [(1, 1000)]
    switched = change(base, u.SetCurrentViewVersion(2))
    third = with_version(switched, version("SELECT 3", version_id=3))
    back = change(third, u.SetCurrentViewVersion(1), now_ms=NOW + 5)
    assert [(each.version_id, each.timestamp_ms) for each in back.version_log] == [
        (1, 1000),
        (2, NOW),
        (3, 3000),
        (1, NOW + 5),
    ]
    assert ids_of(back) == [1, 2, 3]


def test_a_version_that_was_current_only_during_the_change_is_not_logged() -> None:
    base = change(None, *CREATION)
    changed = change(
        base,
        *(u.AddViewVersion(version("SELECT 2", version_id=2)), u.SetCurrentViewVersion()),
        *(u.AddViewVersion(version("SELECT 3", version_id=3)), u.SetCurrentViewVersion()),
    )
    assert log_of(changed) == [1, 3]
    assert ids_of(changed) == [1, 2, 3]


# --- how many versions are kept -----------------------------------------------------------------------------


def sized(size: str, *ids: int, current: int) -> ViewMetadata:
    """A view of several versions, of which it is then told to keep some."""
    texts = [u.AddViewVersion(version(f"SELECT {each}", version_id=each)) for each in ids]
    made = change(None, *CREATION[:3], *texts, u.SetCurrentViewVersion(current))
    return change(made, u.SetProperties(FrozenDict({"version.history.num-entries": size})))


def test_ten_versions_are_kept_by_default() -> None:
    table = change(None, *CREATION)
    for each in range(2, 15):
        table = with_version(table, version(f"SELECT {each}", version_id=each))
    assert ids_of(table) == log_of(table) == list(range(5, 15))


@pytest.mark.parametrize(("size", "kept"), [("3", [1, 2, 3]), ("2", [1, 3]), ("1", [1])])
def test_the_current_version_and_the_newest_are_kept(size: str, kept: list[int]) -> None:
    assert ids_of(sized(size, 1, 2, 3, current=1)) == kept


def test_versions_of_the_same_change_are_all_kept() -> None:
    base = change(None, *CREATION, u.SetProperties(FrozenDict({"version.history.num-entries": "2"})))
    new = [u.AddViewVersion(version(f"SELECT {each}", version_id=each)) for each in (2, 3)]
    added = change(base, *new)
    assert ids_of(added) == [1, 2, 3]
    assert ids_of(change(added, u.SetProperties(FrozenDict({"a": "b"})))) == [1, 3]


def test_the_log_starts_after_the_last_entry_of_a_version_that_is_gone() -> None:
    base = sized("3", 1, 2, 3, current=3)
    for each in (2, 1, 2, 3):
        base = change(base, u.SetCurrentViewVersion(each))
    assert log_of(base) == [3, 2, 1, 2, 3]
    two = change(base, u.SetProperties(FrozenDict({"version.history.num-entries": "2"})))
    assert ids_of(two) == [2, 3]
    assert log_of(two) == [2, 3]


@pytest.mark.parametrize("size", ["0", "-1", "x", "", "²", "--1", "1.5", "9" * 5000])
def test_a_number_of_versions_that_is_none_is_refused(size: str) -> None:
    update = u.SetProperties(FrozenDict({"version.history.num-entries": size}))
    assert refused(view(), update).field == "version.history.num-entries"


# --- dialects -----------------------------------------------------------------------------------------------

ALLOW = "replace.drop-dialect.allowed"


def test_a_dialect_is_not_lost_by_a_replacement() -> None:
    base = change(None, *CREATION)
    trino = version(sql("SELECT 1", "trino"))
    assert "spark" in refused(base, u.AddViewVersion(trino), u.SetCurrentViewVersion()).problem
    assert change(base, u.AddViewVersion(trino)).current_version_id == 1
    both = with_version(base, version(sql("SELECT 1", "SPARK"), sql("SELECT 1", "trino")))
    assert "trino" in refused(both, u.SetCurrentViewVersion(1)).problem


def test_a_dialect_is_dropped_when_the_view_allows_it() -> None:
    base = change(None, *CREATION)
    updates = (u.AddViewVersion(version(sql("SELECT 1", "trino"))), u.SetCurrentViewVersion())
    allow = u.SetProperties(FrozenDict({ALLOW: "true"}))
    trino = change(base, *updates, allow)
    assert trino.current_version.sql_for("spark") is None
    deny = u.SetProperties(FrozenDict({ALLOW: "false"}))
    assert "trino" in refused(trino, u.SetCurrentViewVersion(1), deny).problem
    assert change(trino, u.SetCurrentViewVersion(1)).current_version_id == 1


def test_only_the_version_before_and_the_one_after_count() -> None:
    base = change(None, *CREATION)
    base = change(
        base,
        u.AddViewVersion(version(sql("SELECT 1", "trino"))),
        u.AddViewVersion(version(sql("SELECT 1", "trino"), sql("SELECT 1", "spark"))),
    )
    refused(base, *map(u.SetCurrentViewVersion, (3, 1, 2)))
    assert change(base, *map(u.SetCurrentViewVersion, (2, 3))).current_version_id == 3
    both = change(base, u.SetCurrentViewVersion(3))
    refused(both, *map(u.SetCurrentViewVersion, (1, 2)))


# --- any sequence of updates --------------------------------------------------------------------------------

some_updates = st.one_of(
    st.builds(u.SetCurrentViewVersion, st.integers(-1, 6)),
    st.builds(
        lambda text, dialect, schema_id: u.AddViewVersion(version(sql(text, dialect), schema_id=schema_id)),
        st.sampled_from(["SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4"]),
        st.sampled_from(["spark", "spark", "trino"]),
        st.sampled_from([1, 1, 2, -1]),
    ),
    st.builds(
        lambda names: u.AddSchema(Schema(tuple(Field(1, each, LONG) for each in names))),
        st.sampled_from(["a", "b"]),
    ),
    st.builds(
        lambda size: u.SetProperties(FrozenDict({"version.history.num-entries": size, ALLOW: "true"})),
        st.sampled_from(["1", "2", "3", "0"]),
    ),
)


@given(st.lists(st.lists(some_updates, max_size=3), max_size=10))
def test_any_sequence_of_updates_keeps_a_view_sound(changes: list[list[u.ViewUpdate]]) -> None:
    base = change(None, *CREATION)
    for updates in changes:
        before = serialize_view(base)
        try:
            after = change(base, *updates)
        except InvalidChange:
            after = base
        assert serialize_view(base) == before
        assert parse(written(after)) == after
        assert (after == base) == (after is base)
        assert log_of(after)[-1] == after.current_version_id
        assert set(log_of(after)) <= set(ids_of(after))
        for each in after.versions:
            old = base.versions_by_id.get(each.version_id)
            assert old is None or old == each
        base = after


def test_a_view_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        view().location = "s3://elsewhere"  # type: ignore[misc]
    with pytest.raises(TypeError):
        view().properties["a"] = "b"
    assert msgspec.structs.replace(view(), location="x") != view()
