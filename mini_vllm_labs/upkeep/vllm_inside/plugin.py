"""A pytest plugin for vLLM's tests that replaces schedulers with the one from `LAB_IMPL` and counts each test's
schedulers.

Load it with `-p mini_vllm_labs.upkeep.vllm_inside.plugin` in `.venv-vllm`. `SCHEDULER=stock` keeps vLLM's own
scheduler.
"""

import os
from typing import Any

import pytest

made: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    from vllm.v1.core.sched import async_scheduler, scheduler

    from mini_vllm_labs.inside_vllm.learner_scheduler import LearnerScheduler

    if os.environ.get("SCHEDULER") != "stock":
        scheduler.Scheduler = async_scheduler.AsyncScheduler = LearnerScheduler
    for one in {scheduler.Scheduler, async_scheduler.AsyncScheduler}:
        count(one)


def count(scheduler: Any) -> None:
    plain = scheduler.__init__

    def counted(self: object, *args: Any, **kwargs: Any) -> None:
        made.append(type(self).__name__)
        plain(self, *args, **kwargs)

    scheduler.__init__ = counted


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    made.clear()
    yield
    item.user_properties.append(("schedulers", ",".join(made)))
