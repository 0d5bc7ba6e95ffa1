"""A pytest plugin for `plan.py`: writes the ids of the collected tests, with their markers, to a file."""

import json
import os
from pathlib import Path

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    tests = {item.nodeid: sorted({marker.name for marker in item.iter_markers()}) for item in session.items}
    Path(os.environ["MINI_VLLM_COLLECT"]).write_text(json.dumps(tests), encoding="utf-8")
