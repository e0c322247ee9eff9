"""What a lake works with besides its catalog: kept manifests, and the Spark that reads and writes rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.model.frozen import FrozenDict

SPARK_SCHEMES: Final[Mapping[str, str]] = FrozenDict({"s3": "s3a", "s3n": "s3a"})
"""What Spark calls the schemes of locations, as it comes."""


class Resources(NamedTuple):
    """What a lake works with."""

    cache: ManifestCache
    spark: Any = None
    """The session that the user gave; without one, the active one is used, or one is started."""
    scratch: str | None = None
    """A folder of this machine that a Spark Connect server sees, too."""
    spark_schemes: Mapping[str, str] = SPARK_SCHEMES
    name: str = "lake"
    """What the lake is called in SQL."""
