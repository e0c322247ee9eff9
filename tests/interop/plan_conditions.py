"""Conditions for the tables of other writers, as Spark says them, and as PyIceberg does."""

from __future__ import annotations

TYPES = [
    ("", ""),
    ("id = 25", "id = 25"),
    ("id >= 58", "id >= 58"),
    ("id > 1000", "id > 1000"),
    ("id < 5 OR id = 42", "id < 5 or id = 42"),
    ("id IN (1, 33, 999)", "id in (1, 33, 999)"),
    ("id NOT IN (1, 33)", "id not in (1, 33)"),
    ("id BETWEEN 18 AND 22", "id between 18 and 22"),
    ("NOT (id <= 30 OR id >= 33)", "not (id <= 30 or id >= 33)"),
    ("i IS NULL", "i is null"),
    ("i IS NOT NULL", "i is not null"),
    ("i IS NOT NULL AND i < -150", "i is not null and i < -150"),
    ("i <> 110", "i != 110"),
    ("i > 2000000", "i > 2000000"),
    ("f < 1", "f < 1"),
    ("f > 6.5", "f > 6.5"),
    ("d < 0.3", "d < 0.3"),
    ("d = 0", "d = 0"),
    ("d > 5.0", "d > 5.0"),
    ("isnan(f)", "f is nan"),
    ("f IS NOT NULL AND NOT isnan(f)", "f is not nan"),
    ("m = -28.75", "m = -28.75"),
    ("m > 40.01", "m > 40.01"),
    ("m IN (0, 12.50, 1.25)", "m in (0.00, 12.50, 1.25)"),
    ("wide < 100000000000000000000.00000", "wide < 100000000000000000000.00000"),
    ("wide >= 5900000000000000000000", "wide >= 5900000000000000000000"),
    ("day = DATE '2024-01-14'", "day = '2024-01-14'"),
    ("day < DATE '2024-01-10'", "day < '2024-01-10'"),
    ("day >= DATE '2024-03-12'", "day >= '2024-03-12'"),
    ("ts < TIMESTAMP '1990-01-01 00:00:00'", "ts < '1990-01-01T00:00:00'"),
    ("ts >= TIMESTAMP '2024-03-10 12:30:00'", "ts >= '2024-03-10T12:30:00'"),
    ("tz >= TIMESTAMP '2024-03-10 12:30:00+01:00'", "tz >= '2024-03-10T12:30:00+01:00'"),
    ("tz = TIMESTAMP '2024-01-02 15:30:00Z'", "tz = '2024-01-02T15:30:00+00:00'"),
    ("s = 'abc'", "s = 'abc'"),
    ("s = 'abd39'", "s = 'abd39'"),
    ("s < 'ab'", "s < 'ab'"),
    ("s > 'a text of more than sixteen letters z'", "s > 'a text of more than sixteen letters z'"),
    ("s > 'b'", "s > 'b'"),
    ("s LIKE 'abd4%'", "s like 'abd4%'"),
    ("s LIKE 'zz%'", "s like 'zz%'"),
    ("s NOT LIKE 'ab%'", "s not like 'ab%'"),
    ("s IN ('nowhere', 'abd3')", "s in ('nowhere', 'abd3')"),
    ("flag", "flag = true"),
    ("flag = FALSE", "flag = false"),
    ("st.x = 31", "st.x = 31"),
    ("st.y < 'y2'", "st.y < 'y2'"),
    ("st.x IS NULL", "st.x is null"),
    ("id < 20 AND s = 'abc' AND i > -200", "id < 20 and s = 'abc' and i > -200"),
    ("s IS NULL OR day > DATE '2024-03-12'", "s is null or day > '2024-03-12'"),
]

PARTED = [
    ("", ""),
    ("cat = 'ab1'", "cat = 'ab1'"),
    ("cat = 'cd2' AND id < 20", "cat = 'cd2' and id < 20"),
    ("cat <> 'ab1'", "cat != 'ab1'"),
    ("cat IS NULL", "cat is null"),
    ("cat IS NOT NULL", "cat is not null"),
    ("cat LIKE 'a%'", "cat like 'a%'"),
    ("cat LIKE 'ab%'", "cat like 'ab%'"),
    ("cat NOT LIKE 'ab%'", "cat not like 'ab%'"),
    ("cat < 'b'", "cat < 'b'"),
    ("cat > 'cd3'", "cat > 'cd3'"),
    ("cat IN ('cd0', 'cd4', 'zz')", "cat in ('cd0', 'cd4', 'zz')"),
    ("cat NOT IN ('ab1', 'ab3')", "cat not in ('ab1', 'ab3')"),
    ("id = 33", "id = 33"),
    ("id IN (31, 64, 75)", "id in (31, 64, 75)"),
    ("id >= 66 AND id < 69", "id >= 66 and id < 69"),
    ("id <> 40", "id != 40"),
    ("id = 1000", "id = 1000"),
    ("ts < TIMESTAMP '2023-12-31 00:00:00'", "ts < '2023-12-31T00:00:00'"),
    ("ts >= TIMESTAMP '2024-01-31 23:30:00'", "ts >= '2024-01-31T23:30:00'"),
    ("ts = TIMESTAMP '2024-01-20 21:30:00'", "ts = '2024-01-20T21:30:00'"),
    (
        "ts > TIMESTAMP '2024-01-20 21:30:00' AND ts <= TIMESTAMP '2024-01-22 12:00:00'",
        "ts > '2024-01-20T21:30:00' and ts <= '2024-01-22T12:00:00'",
    ),
    ("ts IS NULL", "ts is null"),
    ("m = 20.00", "m = 20.00"),
    ("m IN (25.00, 27.50)", "m in (25.00, 27.50)"),
    ("m > 30", "m > 30"),
    ("day = DATE '2025-07-15'", "day = '2025-07-15'"),
    ("day > DATE '2025-08-01'", "day > '2025-08-01'"),
    ("n = 2 OR cat = 'cd0'", "n = 2 or cat = 'cd0'"),
    ("NOT (cat = 'ab1' OR ts IS NULL)", "not (cat = 'ab1' or ts is null)"),
    ("id < 0", "id < 0"),
]

CHANGED = [
    ("", ""),
    ("n = 1", "n = 1"),
    ("n = 8589934593", "n = 8589934593"),
    ("n = 8589934594 AND kind IS NOT NULL", "n = 8589934594 and kind is not null"),
    ("n > 1", "n > 1"),
    ("n IN (0, 8589934592)", "n in (0, 8589934592)"),
    ("kind = 'k107'", "kind = 'k107'"),
    ("kind LIKE 'ab%'", "kind like 'ab%'"),
    ("note = 'note 105'", "note = 'note 105'"),
    ("note IS NULL", "note is null"),
    ("note IS NOT NULL", "note is not null"),
    ("f = 2.25", "f = 2.25"),
    ("f > 8", "f > 8"),
    ("m < -9.99", "m < -9.99"),
    ("m IS NULL", "m is null"),
    ("id BETWEEN 98 AND 104", "id between 98 and 104"),
    ("id = 5", "id = 5"),
    ("id >= 300", "id >= 300"),
]

POLARS = [
    ("", ""),
    ("id < 10", "id < 10"),
    ("id >= 119 AND s <> 'p3'", "id >= 119 and s != 'p3'"),
    ("s = 'p1'", "s = 'p1'"),
    ("s = 'p9'", "s = 'p9'"),
    ("id IN (3, 203)", "id in (3, 203)"),
]

MADE = {
    "types": TYPES,
    "types_v1": TYPES[::3],
    "parted": PARTED,
    "changed": CHANGED,
    "polars": POLARS,
}
"""What is asked of each table that PyIceberg and polars fill."""

MORE_IS_PRUNED = {
    # Of null, ``<>``, NOT IN and NOT LIKE are null in SQL, and no row; PyIceberg keeps files of nulls.
    ("types", "i <> 110"): 1,
    ("types", "s NOT LIKE 'ab%'"): 1,
    ("parted", "cat <> 'ab1'"): 7,
    ("parted", "cat NOT LIKE 'ab%'"): 15,
    ("parted", "cat NOT IN ('ab1', 'ab3')"): 9,
    ("parted", "NOT (cat = 'ab1' OR ts IS NULL)"): 6,
    # Of null, PyIceberg also says that it is no NaN.
    ("types", "f IS NOT NULL AND NOT isnan(f)"): 1,
}
"""Files that we leave out and PyIceberg does not."""

MORE_IS_KEPT = {
    # Spark has NaN above all numbers. Bounds do not tell of it and PyIceberg does not count it, so that it
    # may be in any file; PyIceberg loses those where it is.
    ("types", "f > 6.5"): 5,
    ("types", "d > 5.0"): 3,
}
"""Files that we read and PyIceberg does not."""

FOUND_ELSEWHERE = {
    # DuckDB has it there as well, and yet goes by the bounds.
    ("types", "f > 6.5"): [5, 16, 27, 49],
    ("types", "d > 5.0"): [40],
}
"""Rows that match by DuckDB's own rules, in files that it leaves out."""

COPIED = [
    ("", 1),
    ("id = 25", 1),
    ("id > 1000", 0),
    ("i < -190", 1),
    ("i < -200", 0),
    ("f >= 8", 1),  # there may be NaN
    ("f < 0", 0),
    ("d > 5.0", 1),
    ("m > 43.75", 0),
    ("m = 43.75", 1),
    ("wide > 5900000", 0),
    ("wide = 5900000", 1),
    ("day = DATE '2024-02-29'", 1),
    ("day > DATE '2024-02-29'", 0),
    ("ts < TIMESTAMP '2024-01-01 08:30:00'", 0),
    ("tz >= TIMESTAMP '2024-03-10 12:30:00+01:00'", 1),
    ("s = 'abd39'", 1),
    ("s LIKE 'abe%'", 0),
    ("s IS NULL", 1),
    ("flag", 1),
    ("st.x = 31", 1),
    ("st.x > 59", 0),
    ("empty IS NULL AND id < 3", 1),
    ("empty = 'x'", 1),  # nulls are counted, values are not
]
"""Of the table that DuckDB copies: conditions, and how many of its files may match."""
