"""lakeplane: a Python control plane for open lake tables, with vanilla Spark as its data plane."""

from lakeplane.errors import (
    InvalidChange,
    InvalidExpression,
    InvalidInput,
    InvalidLocation,
    InvalidMetadata,
    LakeplaneError,
    LimitExceeded,
    RequirementFailed,
    UnsupportedVersion,
)

__all__ = [
    "InvalidChange",
    "InvalidExpression",
    "InvalidInput",
    "InvalidLocation",
    "InvalidMetadata",
    "LakeplaneError",
    "LimitExceeded",
    "RequirementFailed",
    "UnsupportedVersion",
]
