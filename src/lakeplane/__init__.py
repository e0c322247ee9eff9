"""lakeplane: a Python control plane for open lake tables, with vanilla Spark as its data plane."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakeplane.errors import (
    AccessDenied,
    AlreadyExists,
    CatalogCannot,
    CatalogError,
    CatalogUnavailable,
    CommitConflict,
    FileChanged,
    FileExists,
    FileMissing,
    InvalidChange,
    InvalidExpression,
    InvalidInput,
    InvalidLocation,
    InvalidMetadata,
    LakeplaneError,
    LimitExceeded,
    NamespaceNotEmpty,
    NoSpace,
    NotFound,
    NotSupported,
    OutcomeUnknown,
    RequirementFailed,
    StorageError,
    StoreCannot,
    UnsupportedVersion,
)

if TYPE_CHECKING:
    from lakeplane.connection import connect, open  # noqa: A004 - users write lakeplane.open
    from lakeplane.lake import Lake
    from lakeplane.paimon_table import PaimonTable
    from lakeplane.receipt import Commit
    from lakeplane.table import Table, View

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "CatalogCannot",
    "CatalogError",
    "CatalogUnavailable",
    "Commit",
    "CommitConflict",
    "FileChanged",
    "FileExists",
    "FileMissing",
    "InvalidChange",
    "InvalidExpression",
    "InvalidInput",
    "InvalidLocation",
    "InvalidMetadata",
    "Lake",
    "LakeplaneError",
    "LimitExceeded",
    "NamespaceNotEmpty",
    "NoSpace",
    "NotFound",
    "NotSupported",
    "OutcomeUnknown",
    "PaimonTable",
    "RequirementFailed",
    "StorageError",
    "StoreCannot",
    "Table",
    "UnsupportedVersion",
    "View",
    "connect",
    "open",
]

_LATER = {
    "Commit": "receipt",
    "Lake": "lake",
    "PaimonTable": "paimon_table",
    "Table": "table",
    "View": "table",
    "connect": "connection",
    "open": "connection",
}
"""What is imported when it is first used, so that ``import lakeplane`` costs next to nothing."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'lakeplane' has no attribute {name!r}")
    return getattr(import_module(f"lakeplane.{_LATER[name]}"), name)
