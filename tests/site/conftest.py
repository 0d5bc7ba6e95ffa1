"""The site that these tests share."""

from pathlib import Path

import pytest

from tests.site.learner import built_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory.mktemp("site") / "site")
