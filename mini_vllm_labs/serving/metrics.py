"""Exports an engine's metrics to Prometheus, and logs a line of metrics every ten seconds.

vLLM: `v1/metrics/loggers.py`.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.counts import BucketCounts, Counts
from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.metrics import (
    ABOUT,
    LOG_SECONDS,
    Counter,
    Gauge,
    Histogram,
    StatLogger,
    Vector,
    get_metrics_snapshot,
)
from mini_vllm.engine.statistics import EngineStatistics
from mini_vllm_labs.serving.observed import observer_of

SECONDS_OF_FAILURE = 60.0


class EngineCollector(Collector):
    """Yields an engine's metrics. `params_n` counts the values of `n` in HTTP requests."""

    def __init__(self, counts: Counts, model_name: str, params_n: BucketCounts) -> None:
        self._counts = replace(counts, histograms=counts.histograms | {"request_params_n": params_n})
        self._model_name = model_name

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Any] = {}
        for metric in get_metrics_snapshot(self._counts, self._model_name):
            name, values = metric.name, list(metric.labels.values())
            names, about = list(metric.labels), ABOUT[name.removeprefix("vllm:")]
            match metric:
                case Gauge(value=value):
                    families.setdefault(name, GaugeMetricFamily(name, about, labels=names)).add_metric(values, value)
                case Counter(value=value):
                    families.setdefault(name, CounterMetricFamily(name, about, labels=names)).add_metric(values, value)
                case Vector(values=numbers):
                    families[name] = CounterMetricFamily(name, about, labels=[*names, "position"])
                    for position, number in enumerate(numbers):
                        families[name].add_metric([*values, str(position)], number)
                case Histogram(buckets=buckets, sum=total):
                    families[name] = HistogramMetricFamily(name, about, labels=names)
                    families[name].add_metric(values, list(buckets.items()), total)
        yield from families.values()


async def log_statistics(llm: AsyncLLM) -> None:
    """Log a line of metrics every ten seconds until the engine stops."""
    stat_logger = StatLogger(time.monotonic())
    with suppress(EngineDeadError, ShuttingDownError):
        while True:
            await asyncio.sleep(LOG_SECONDS)
            stat_logger.log(await llm.call_during_step(counts_of), time.monotonic())


def keep_statistics(engine: LLMEngine) -> None:
    """Add the observer that counts an engine's steps. Call this function in the engine's process."""
    engine.add_observer(EngineStatistics(engine))


def counts_of(engine: LLMEngine) -> Counts:
    """Return an engine's counts so far."""
    return observer_of(engine, EngineStatistics).counts


def counts_and_failure(engine: LLMEngine) -> tuple[Counts, str]:
    """Return an engine's counts, and the reason if a step failed in the last `SECONDS_OF_FAILURE` seconds."""
    when, reason = engine.last_failure
    seconds = time.monotonic() - when
    is_recent = reason and seconds < SECONDS_OF_FAILURE
    return counts_of(engine), f"a step failed {seconds:.0f} seconds ago: {reason}" if is_recent else ""
