from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput
from lakeplane.model import temporal
from lakeplane.model.types import DATE, TIME, TIMESTAMP, TIMESTAMP_NS, TIMESTAMPTZ, TIMESTAMPTZ_NS

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)

# What java.time prints for LocalDate.ofEpochDay(days), with DateTimeFormatter.ISO_LOCAL_DATE (JDK 21).
JAVA_DATES = [
    (2147483647, "+5881580-07-11"),
    (-2147483648, "-5877641-06-23"),
    (-719529, "-0001-12-31"),
    (-719528, "0000-01-01"),
    (2932897, "+10000-01-01"),
    (2932896, "9999-12-31"),
    (0, "1970-01-01"),
    (11016, "2000-02-29"),
    (-719895, "-0002-12-30"),
    (1000000, "4707-11-29"),
    (-1000000, "-0768-02-04"),
    (100000000, "+275760-09-13"),
]

# ChronoUnit.MICROS and NANOS added to the epoch, in the same way.
JAVA_TIMESTAMPS = [
    (2**63 - 1, False, "+294247-01-10T04:00:54.775807"),
    (-(2**63), False, "-290308-12-21T19:59:05.224192"),
    (-1, False, "1969-12-31T23:59:59.999999"),
    (2**63 - 1, True, "2262-04-11T23:47:16.854775807"),
    (-(2**63), True, "1677-09-21T00:12:43.145224192"),
    (-1, True, "1969-12-31T23:59:59.999999999"),
]


@pytest.mark.parametrize(("days", "text"), JAVA_DATES)
def test_dates_are_written_and_read_as_java_does(days: int, text: str) -> None:
    assert temporal.format_date(days) == text
    assert temporal.parse_date(text) == days


@pytest.mark.parametrize(("value", "nanos", "text"), JAVA_TIMESTAMPS)
def test_timestamps_are_written_and_read_as_java_does(*, value: int, nanos: bool, text: str) -> None:
    assert temporal.format_timestamp(value, nanos=nanos, zoned=False) == text
    assert temporal.parse_timestamp(text, nanos=nanos, zoned=False) == value


def test_the_examples_of_the_spec() -> None:
    # Appendix D, JSON single-value serialization.
    micros, nanos = 1510871468123456, 1510871468123456789
    assert temporal.parse_date("2017-11-16") == 17486
    assert temporal.format_time(81068123456) == "22:31:08.123456"
    assert temporal.format_timestamp(micros, nanos=False, zoned=False) == "2017-11-16T22:31:08.123456"
    assert temporal.format_timestamp(micros, nanos=False, zoned=True) == "2017-11-16T22:31:08.123456+00:00"
    assert temporal.format_timestamp(nanos, nanos=True, zoned=False) == "2017-11-16T22:31:08.123456789"
    assert temporal.format_timestamp(nanos, nanos=True, zoned=True) == "2017-11-16T22:31:08.123456789+00:00"


@given(st.dates())
@example(dt.date(1, 1, 1))
@example(dt.date(9999, 12, 31))
def test_the_calendar_is_that_of_datetime(date: dt.date) -> None:
    days = temporal.from_date(date)
    assert days == (date - dt.date(1970, 1, 1)).days
    assert temporal.format_date(days) == date.isoformat()
    assert temporal.parse_date(date.isoformat()) == days
    assert temporal.civil_from_days(days) == (date.year, date.month, date.day)


@given(INTS)
def test_dates_survive_their_text(days: int) -> None:
    assert temporal.parse_date(temporal.format_date(days)) == days
    assert temporal.days_from_civil(*temporal.civil_from_days(days)) == days


def test_four_hundred_years_day_by_day() -> None:
    day = temporal.civil_from_days(-400_000)
    for days in range(-399_999, -399_999 + 146_097):
        following = temporal.civil_from_days(days)
        assert following > day
        assert following[2] in (day[2] + 1, 1)
        assert temporal.days_from_civil(*following) == days
        day = following


@given(st.integers(0, temporal.DAY_MICROS - 1))
def test_times_survive_their_text(micros: int) -> None:
    assert temporal.parse_time(temporal.format_time(micros)) == micros


@given(value=LONGS, nanos=st.booleans(), zoned=st.booleans())
def test_timestamps_survive_their_text(*, value: int, nanos: bool, zoned: bool) -> None:
    text = temporal.format_timestamp(value, nanos=nanos, zoned=zoned)
    assert temporal.parse_timestamp(text, nanos=nanos, zoned=zoned) == value


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        # What Java writes: no fraction when there is none, no zeros at its end; and ISO's short forms.
        ("10:15:30", 36930000000),
        ("10:15:30.12", 36930120000),
        ("10:15", 36900000000),
        ("00:00:00.000001", 1),
    ],
)
def test_shorter_times_are_read(text: str, micros: int) -> None:
    assert temporal.parse_time(text) == micros
    assert temporal.parse_timestamp(f"1970-01-01T{text}", nanos=False, zoned=False) == micros
    assert temporal.parse_timestamp(f"1970-01-01T{text}Z", nanos=True, zoned=True) == micros * 1000


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "2017-1-01",
            "2017-13-01",
            "2017-00-10",
            "2017-02-29",
            "1900-02-29",
            "2017-04-31",
            "2017-01-00",
        ),
        *("17-01-01", "12345-01-01", "+2017-01-01", "-0000-01-01", "2017-01-01 ", "2017-01-01T00:00:00"),
        *("٢٠١٧-01-01", "2017-01-1_", "2017-01-01\n", "+1234567890-01-01"),
    ],
)
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a date"):
        temporal.parse_date(text)


@pytest.mark.parametrize(
    "text", ["24:00:00", "10:60:00", "10:00:60", "10", "10:1:00", "10:00:00.", "10:00:00.1234567", "10:00Z"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a time"):
        temporal.parse_time(text)


@pytest.mark.parametrize(
    ("text", "nanos", "zoned", "reason"),
    [
        ("2007-12-03T10:15:30+01:00", False, True, "must be \\+00:00"),
        ("2007-12-03T10:15:30-00:00", False, True, "must be \\+00:00"),
        ("2007-12-03T10:15:30", False, True, "Add the offset"),
        ("2007-12-03T10:15:30Z", False, False, "Leave out the offset"),
        ("2007-12-03T10:15:30+00:00", True, False, "Leave out the offset"),
        ("2007-12-03T10:15:30.1234567", False, False, "6 digits"),
        ("2007-12-03T10:15:30.1234567890", True, False, "9 digits"),
        ("2007-12-03 10:15:30", False, False, "Write it as"),
        ("2007-12-03", False, False, "Write it as"),
        ("2007-12-03T10:15:30+0000", False, True, "Write it as"),
    ],
)
def test_what_is_no_timestamp_is_refused(*, text: str, nanos: bool, zoned: bool, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        temporal.parse_timestamp(text, nanos=nanos, zoned=zoned)


@given(
    moment=st.datetimes().filter(lambda moment: 1800 <= moment.year <= 2200),
    minutes=st.integers(-17 * 60, 17 * 60),
    nanos=st.booleans(),
)
def test_other_offsets_are_converted_for_users(*, moment: dt.datetime, minutes: int, nanos: bool) -> None:
    aware = moment.replace(tzinfo=dt.timezone(dt.timedelta(minutes=minutes)))
    expected = (aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    expected *= 1000 if nanos else 1
    text = aware.isoformat()
    assert temporal.parse_timestamp(text, nanos=nanos, zoned=True, any_offset=True) == expected
    assert temporal.from_datetime(aware, nanos=nanos, zoned=True) == expected
    utc = aware.astimezone(dt.UTC).replace(tzinfo=None)
    assert temporal.from_datetime(utc, nanos=nanos, zoned=False) == expected


@pytest.mark.parametrize("offset", ["+19:00", "+01:60", "-00:00", "+24:00"])
def test_impossible_offsets_are_refused(offset: str) -> None:
    with pytest.raises(InvalidInput, match="no offset"):
        temporal.parse_timestamp(f"2007-12-03T10:15:30{offset}", nanos=False, zoned=True, any_offset=True)


def test_a_time_zone_must_be_there_exactly_when_the_type_has_one() -> None:
    naive = dt.datetime(2020, 1, 1)  # noqa: DTZ001
    with pytest.raises(InvalidInput, match="tzinfo"):
        temporal.from_datetime(naive, nanos=False, zoned=True)
    with pytest.raises(InvalidInput, match="Remove the time zone"):
        temporal.from_datetime(naive.replace(tzinfo=dt.UTC), nanos=False, zoned=False)
    with pytest.raises(InvalidInput, match="Leave out"):
        temporal.from_time(dt.time(1, tzinfo=dt.UTC))


def test_nanoseconds_of_a_foreign_timestamp_are_kept_or_refused() -> None:
    class Stamp(dt.datetime):
        nanosecond = 7  # as pandas.Timestamp has

    moment = Stamp(1970, 1, 1, 0, 0, 0, 5)
    assert temporal.from_datetime(moment, nanos=True, zoned=False) == 5007
    with pytest.raises(InvalidInput, match="microseconds"):
        temporal.from_datetime(moment, nanos=False, zoned=False)


def test_the_type_chooses_the_text() -> None:
    assert temporal.to_text(DATE, 1) == "1970-01-02"
    assert temporal.to_text(TIME, 1) == "00:00:00.000001"
    assert temporal.to_text(TIMESTAMP, 1) == "1970-01-01T00:00:00.000001"
    assert temporal.to_text(TIMESTAMPTZ, 1) == "1970-01-01T00:00:00.000001+00:00"
    assert temporal.to_text(TIMESTAMP_NS, 1) == "1970-01-01T00:00:00.000000001"
    assert temporal.to_text(TIMESTAMPTZ_NS, 1) == "1970-01-01T00:00:00.000000001+00:00"
    for type_ in temporal.TYPES:
        assert temporal.from_text(type_, temporal.to_text(type_, 1)) == 1


def test_a_moment_of_the_wrong_kind_has_no_value() -> None:
    moment = dt.datetime(2020, 1, 1)  # noqa: DTZ001
    assert temporal.from_python(DATE, moment) is None
    assert temporal.from_python(TIMESTAMP, moment.date()) is None
    assert temporal.from_python(DATE, moment.time()) is None
    assert temporal.from_python(TIME, moment.time()) == 0
    assert temporal.from_python(DATE, moment.date()) == 18262
    assert temporal.from_python(TIMESTAMP, moment) == 18262 * temporal.DAY_MICROS


@given(st.text(alphabet="0123456789-+:.TtZz ", max_size=36))
def test_any_text_is_read_or_refused(text: str) -> None:
    for type_ in temporal.TYPES:
        try:
            temporal.from_text(type_, text, any_offset=True)
        except InvalidInput:
            continue
