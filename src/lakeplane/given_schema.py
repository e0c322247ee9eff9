"""What users have for a schema, as ours."""

from __future__ import annotations

from typing import Any

from lakeplane.errors import InvalidInput
from lakeplane.model.schema import Schema


def as_schema(given: Any) -> Schema:
    """Turn what users have for a schema into ours: DDL text, a Spark or an Arrow schema."""
    if isinstance(given, Schema):
        return given
    if type(given).__module__.startswith("pyspark"):
        from lakeplane.spark.types import from_spark  # noqa: PLC0415 - brings pyspark

        return from_spark(given)
    if isinstance(given, str):
        from lakeplane.model.ddl import parse_ddl  # noqa: PLC0415 - sqlglot is slow to import

        return parse_ddl(given)
    if type(given).__module__.startswith("pyarrow"):
        from lakeplane.model.arrow_schema import from_arrow  # noqa: PLC0415 - so is pyarrow

        return from_arrow(given)
    hint = "Give DDL text, a pyarrow.Schema, a Spark StructType, or a lakeplane Schema"
    raise InvalidInput(f"not a schema: {type(given).__name__}", hint=hint)
