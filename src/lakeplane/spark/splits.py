"""The size of the pieces that the files of one scan are read in, as the table's properties ask.

Spark knows such sizes for whole sessions only. A classic session can be cloned, though: a scan that is made
in the clone keeps its settings, wherever the frame is used. Through Spark Connect there is no way to do that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from lakeplane.iceberg.properties import number
from lakeplane.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SETTINGS: Final = {
    "read.split.target-size": "spark.sql.files.maxPartitionBytes",
    "read.split.open-file-cost": "spark.sql.files.openCostInBytes",
}


def scanning_session(session: SparkSession, properties: Mapping[str, str]) -> SparkSession:
    """The session to make a scan in: a clone with other sizes, if the table asks for some."""
    sizes = {
        setting: str(size)
        for name, setting in _SETTINGS.items()
        if (size := number(properties.get(name))) is not None and size >= 0
    }
    if not sizes or is_connect(session):
        return session
    inner: Any = session
    clone = SparkSession(session.sparkContext, inner._jsparkSession.cloneSession())  # noqa: SLF001 - no other way
    for setting, text in sizes.items():
        clone.conf.set(setting, text)
    return clone


def brought_to(session: SparkSession, frame: DataFrame) -> DataFrame:
    """The same scan as a frame of the user's session, which has his views and settings."""
    if frame.sparkSession is session or is_connect(session):
        return frame
    inner: Any = session
    made: Any = frame
    dataset = inner._jvm.org.apache.spark.sql.classic.Dataset  # noqa: SLF001
    plan = made._jdf.queryExecution().analyzed()  # noqa: SLF001
    return type(frame)(dataset.ofRows(inner._jsparkSession, plan), session)  # noqa: SLF001
