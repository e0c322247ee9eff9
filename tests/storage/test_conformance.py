from __future__ import annotations

from pathlib import Path

import pytest

from lakeplane.model.location import Location, parse_location
from lakeplane.storage.local import LocalStore
from lakeplane.storage.memory import MemoryStore
from lakeplane.storage.open import open_store
from lakeplane.storage.router import Router
from lakeplane.testing.faults import FaultStore
from lakeplane.testing.storage import STORE_CHECKS, Check
from tests.storage.s3 import S3

every_check = pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)


@every_check
def test_memory(check: Check) -> None:
    check(MemoryStore(), parse_location("memory://lake/folder"))


@every_check
def test_memory_without_conditions(check: Check) -> None:
    store = MemoryStore(can_put_if_absent=False, can_put_if_match=False)
    check(store, parse_location("memory://lake/folder"))


@every_check
def test_local(check: Check, lake: Location) -> None:
    check(LocalStore(lake), lake / "folder")


@every_check
def test_local_without_a_root(check: Check, fast_folder: Path) -> None:
    check(LocalStore(), parse_location(str(fast_folder)) / "folder")


@every_check
def test_s3(check: Check, s3: S3, s3_folder: Location) -> None:
    check(open_store(parse_location("s3://lake"), s3.options()), s3_folder)


@every_check
def test_a_router_and_another_spelling_of_the_scheme(check: Check) -> None:
    root = parse_location("s3://lake/warehouse")
    router = Router({root: MemoryStore(root), parse_location("s3://lake"): MemoryStore()})
    check(router, parse_location("s3a://lake/warehouse/folder"))


@every_check
def test_a_fault_store_without_faults(check: Check) -> None:
    check(FaultStore(MemoryStore()), parse_location("memory://lake/folder"))
