"""An engine's statistics under the names of vLLM's metrics, made when Prometheus asks. (`v1/metrics/loggers.py`.)"""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mini_vllm.engine.observers import DraftStatistics
from serving.metrics.engine_statistics import Counts, Histogram

LABELS = ("model_name", "engine")


class EngineCollector(Collector):
    """Yields every metric with the labels `model_name` and `engine`, which is 0: there is one engine."""

    def __init__(self, counts: Counts, model_name: str) -> None:
        self._counts = counts
        self._labels = (model_name, "0")

    def collect(self) -> Iterator[Metric]:
        now = self._counts
        yield self._gauge("num_requests_running", "Requests that run.", now.num_running)
        yield self._gauge("num_requests_waiting", "Requests that wait to run.", now.num_waiting)
        yield self._gauge("kv_cache_usage_perc", "Share of the blocks in use, 0 to 1.", now.kv_cache_usage)
        yield self._counter("prefix_cache_queries", "Prompt tokens looked up in the cache.", now.num_queried_tokens)
        yield self._counter("prefix_cache_hits", "Prompt tokens found in the prefix cache.", now.num_cached_tokens)
        yield self._counter("num_preemptions", "Preemptions.", now.num_preemptions)
        yield self._counter("prompt_tokens", "Tokens of prompts, cached ones too.", now.num_prompt_tokens)
        yield self._counter("generation_tokens", "Tokens generated.", now.num_generation_tokens)
        yield self._counters("request_success", "Requests that ended.", "finished_reason", now.num_finished)
        yield self._histogram("iteration_tokens_total", "Tokens scheduled in a step.", now.step_tokens)
        yield self._histogram("time_to_first_token_seconds", "From arrival to first token.", now.time_to_first_token)
        yield self._histogram("inter_token_latency_seconds", "From tokens to the next ones.", now.inter_token_latency)
        yield self._histogram(
            "request_time_per_output_token_seconds", "A request's mean time per token.", now.time_per_output_token
        )
        yield self._histogram("e2e_request_latency_seconds", "From arrival to last token.", now.e2e_latency)
        yield self._histogram("request_queue_time_seconds", "From arrival to first step.", now.queue_time)
        if now.drafts is not None:
            yield from self._drafts(now.drafts)

    def _drafts(self, drafts: DraftStatistics) -> Iterator[Metric]:
        yield self._counter("spec_decode_num_drafts", "Requests with drafts in a step.", drafts.num_drafts)
        yield self._counter("spec_decode_num_draft_tokens", "Draft tokens verified.", drafts.num_draft_tokens)
        yield self._counter("spec_decode_num_accepted_tokens", "Draft tokens accepted.", drafts.num_accepted_tokens)
        by_position = {str(position): count for position, count in enumerate(drafts.num_accepted_tokens_per_pos)}
        yield self._counters(
            "spec_decode_num_accepted_tokens_per_pos", "Draft tokens accepted by position.", "position", by_position
        )

    def _gauge(self, name: str, about: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", about, labels=LABELS)
        family.add_metric(self._labels, value)
        return family

    def _counter(self, name: str, about: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", about, labels=LABELS)
        family.add_metric(self._labels, value)
        return family

    def _counters(self, name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", about, labels=(*LABELS, label))
        for key, value in values.items():
            family.add_metric((*self._labels, key), value)
        return family

    def _histogram(self, name: str, about: str, histogram: Histogram) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", about, labels=LABELS)
        family.add_metric(self._labels, histogram.buckets(), histogram.total)
        return family
