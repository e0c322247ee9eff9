"""Spark's own classes, under a name that the floors above may use."""

from __future__ import annotations

# This module is the name for others.
from pyspark.sql import DataFrame as DataFrame  # noqa: PLC0414
from pyspark.sql import SparkSession as SparkSession  # noqa: PLC0414
