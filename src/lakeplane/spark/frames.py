"""Spark's DataFrame, under a name that the floors above may use."""

from __future__ import annotations

from pyspark.sql import DataFrame as DataFrame  # noqa: PLC0414 - this module is the name for others
