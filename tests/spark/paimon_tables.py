"""Tables of Paimon on disk, for Spark, and their rows as the documents beside them tell them."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
from pathlib import Path
from typing import Any

from lakeplane.paimon.types import DataField, Row, Timestamp
from lakeplane.paimon.types import Map as PaimonMap
from tests.paimon.stored import Stored


def unpacked(table: Stored, folder: Path) -> Path:
    """Write the files of a table to a directory."""
    home = folder / table.name
    for path, data in table.content.items():
        place = home / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return home


def told(rows: list[Any], fields: tuple[DataField, ...]) -> list[dict[str, Any]]:
    """Rows of Spark in the spelling of the documents."""
    return [{each.name: _told(row[each.name], each.type) for each in fields} for row in rows]


def _told(value: Any, type_: Any) -> Any:
    match value:
        case None:
            return None
        case decimal.Decimal():
            return f"{value:f}"
        case dt.datetime() if isinstance(type_.kind, Timestamp) and type_.kind.zoned:
            return value.isoformat() + "+00:00"
        case dt.date() | dt.time():
            return _time(value)
        case bytes() | bytearray():
            return {"b64": base64.b64encode(bytes(value)).decode()}
        case dict() if isinstance(type_.kind, PaimonMap):
            pairs = [[_told(k, type_.kind.key), _told(v, type_.kind.value)] for k, v in value.items()]
            return sorted(pairs, key=repr)
        case list():
            return [_told(each, type_.kind.element) for each in value]
        case _ if isinstance(type_.kind, Row):
            return {each.name: _told(value[each.name], each.type) for each in type_.kind.fields}
        case _:
            return value


def _time(value: dt.date | dt.time) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    whole = (value.hour * 60 + value.minute) * 60 + value.second
    return whole * 1000 + value.microsecond // 1000


def spelled(value: Any) -> Any:
    """A value of a document as ``told`` spells it: times always with their seconds."""
    match value:
        case str() if len(value) >= 16 and value[10:11] == "T":
            try:
                return _iso(dt.datetime.fromisoformat(value))
            except ValueError:
                return value
        case dict():
            return {key: spelled(each) for key, each in value.items()}
        case list():
            found = [spelled(each) for each in value]
            is_map = found and all(isinstance(each, list) and len(each) == 2 for each in found)
            return sorted(found, key=repr) if is_map else found
        case _:
            return value


def _iso(moment: dt.datetime) -> str:
    return moment.isoformat()
