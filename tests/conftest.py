"""Settings and fixtures of the whole suite."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import settings

# Replaces hypothesis's own "ci" profile, which would try the same examples on every run.
settings.register_profile("ci", derandomize=False, print_blob=True, deadline=None, max_examples=100)
settings.load_profile("ci")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_report_header(config: pytest.Config) -> str:
    return f"to repeat this run's examples: --hypothesis-seed={config.option.hypothesis_seed}"


@pytest.fixture(scope="session")
def vectors() -> Path:
    """The public test resources of other implementations, see ``tools/fetch_vectors.py``."""
    folder = os.environ.get("LAKEPLANE_VECTORS", "")
    if not folder or not Path(folder).is_dir():
        pytest.fail(f"LAKEPLANE_VECTORS is {folder!r}, not a directory: run `make test`", pytrace=False)
    return Path(folder)
