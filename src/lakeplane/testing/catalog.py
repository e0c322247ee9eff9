"""What every catalog must do: checks for catalogs of ours and of others.

Each check takes a ``Subject``, that is how to connect to a catalog and what it can do, and raises
``AssertionError`` if the catalog does not keep its contract. With pytest::

    @pytest.mark.parametrize("check", CATALOG_CHECKS, ids=lambda check: check.__name__)
    def test_catalog(check):
        check(Subject(connect_to_my_catalog, ALL - {Ability.RENAME}))

Nothing is skipped: for an ability that a catalog is said to lack, it is checked that it refuses. Without
pytest, ``failures`` runs all of them.
"""

from __future__ import annotations

from typing import Final

from lakeplane.testing.catalog_commits import COMMIT_CHECKS
from lakeplane.testing.catalog_metadata import METADATA_CHECKS
from lakeplane.testing.catalog_names import NAME_CHECKS
from lakeplane.testing.catalog_namespaces import NAMESPACE_CHECKS
from lakeplane.testing.catalog_subject import ALL, Ability, Check, Subject
from lakeplane.testing.catalog_tables import TABLE_CHECKS
from lakeplane.testing.catalog_views import VIEW_CHECKS

__all__ = ["ALL", "CATALOG_CHECKS", "Ability", "Check", "Subject", "failures"]

CATALOG_CHECKS: Final[tuple[Check, ...]] = (
    *NAMESPACE_CHECKS,
    *TABLE_CHECKS,
    *COMMIT_CHECKS,
    *METADATA_CHECKS,
    *VIEW_CHECKS,
    *NAME_CHECKS,
)


def failures(subject: Subject) -> dict[str, Exception]:
    """Run every check; what failed, under the names of the checks."""
    found: dict[str, Exception] = {}
    for check in CATALOG_CHECKS:
        try:
            check(subject)
        except Exception as failure:  # noqa: BLE001  # whatever a catalog of somebody else raises
            found[check.__name__] = failure
    return found
