"""Fixtures for all tests: no lineup from the environment, and reproducible Hypothesis settings."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.chromium import axe, browser, pages
from tests.cli.conftest import mini_vllm
from tests.snapshots import pytest_addoption, snapshots

__all__ = ["axe", "browser", "mini_vllm", "pages", "pytest_addoption", "snapshots"]

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("dev", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Reject test ids that contain an address, because pytest-xdist ends a run whose processes collect different
    ids."""
    if addressed := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"ids that differ from process to process: {', '.join(addressed)}")


@pytest.fixture(autouse=True)
def _no_lineup_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove `LAB_IMPL`, because each test names its lineup and the shell's setting must not affect it."""
    monkeypatch.delenv("LAB_IMPL", raising=False)
