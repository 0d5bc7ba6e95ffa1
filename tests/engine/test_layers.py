"""A scheduler has the layers that its config requires, in this order, and no others."""

from collections import Counter
from typing import Any

import pytest

from mini_vllm.assembly import elective_parts
from mini_vllm.config import KVTransferConfig, SpeculativeConfig
from mini_vllm.core.scheduler import Scheduler
from tests.engine.workloads import make_engine, small_config

CORE = "CheckedPrefixCache HashPrefixCache | PagedKVCacheManager | ChunkedPrefillPolicy | FCFSRequestQueue"
DRAFTS: dict[str, Any] = {"speculative_config": SpeculativeConfig()}
LORAS: dict[str, Any] = {"max_loras": 2}
HOST: dict[str, Any] = {"kv_transfer_config": KVTransferConfig(kv_connector="host")}


def layers_of(scheduler: Scheduler) -> str:
    """Return the classes of the parts that may be wrapped, each list from the outside in."""
    return " | ".join(
        " ".join(classes_of(part))
        for part in (scheduler.prefix_cache, scheduler.kv, scheduler.chunks, scheduler.waiting)
    )


def classes_of(part: object) -> list[str]:
    inner = getattr(part, "inner", None)
    return [type(part).__name__] + ([] if inner is None else classes_of(inner))


@pytest.mark.parametrize(
    ("lineup", "settings", "record", "expected"),
    [
        ("1-5", {}, False, CORE),
        ("1-5", {"enable_prefix_caching": False}, False, CORE.replace("CheckedPrefixCache Hash", "No", 1)),
        ("1-5", {}, True, f"ObservedPrefixCache {CORE}"),
        (
            "1-5,7",
            DRAFTS,
            False,
            "CheckedPrefixCache HashPrefixCache | KVCacheAhead PagedKVCacheManager"
            " | ChunksAhead ChunkedPrefillPolicy | FCFSRequestQueue",
        ),
        (
            "1-5,7,8,10,11",
            {**DRAFTS, **LORAS, **HOST, "async_scheduling": True},
            True,
            "DelayedCommits ObservedPrefixCache ImagesInHashes CheckedPrefixCache HashPrefixCache"
            " | GatedKVCache KVCacheAhead PagedKVCacheManager"
            " | GatedChunks ChunksAhead ChunkedPrefillPolicy | PassingQueue FCFSRequestQueue",
        ),
    ],
)
def test_a_scheduler_has_the_requested_layers_even_after_a_restart(
    lineup: str, settings: dict[str, Any], record: bool, expected: str
) -> None:
    phases = ",".join(f"solution:{phase}" for phase in lineup.split(","))
    scheduler = make_engine(small_config(**settings), phases, record=record).scheduler
    assert layers_of(scheduler) == expected
    scheduler.restart()
    assert layers_of(scheduler) == expected


def test_an_engine_opens_each_elective_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Counter[str]()

    def counted(name: str) -> Any:
        function = getattr(elective_parts, name)

        def count_and_open(*args: Any) -> Any:
            opened[name] += 1
            return function(*args)

        return count_and_open

    names = [name for name in vars(elective_parts) if name.endswith("_functions_for")]
    for name in names:
        monkeypatch.setattr(elective_parts, name, counted(name))
    settings = {**DRAFTS, **LORAS, **HOST, "async_scheduling": True}
    make_engine(small_config(**settings), "solution:1-5,solution:7,solution:8,solution:10,solution:11")
    assert opened == dict.fromkeys(set(names) - {"window_functions_for"}, 1), "without windows phase 12 is not opened"
