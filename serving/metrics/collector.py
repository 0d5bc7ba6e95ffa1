"""An engine's statistics under the names of vLLM's metrics, made when Prometheus asks. (`v1/metrics/loggers.py`.)"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from serving.metrics.counts import Counts
from serving.metrics.histogram import Histogram

LABELS = ("model_name", "engine")


class EngineCollector(Collector):
    """Yields every metric with the labels `model_name` and `engine`, which is 0: there is one engine."""

    def __init__(self, counts: Counts, model_name: str) -> None:
        self._counts = counts
        self._labels = (model_name, "0")

    def collect(self) -> Iterator[Metric]:
        yield from self._gauges()
        yield from self._counters()
        yield from self._histograms()
        yield from self._drafts()

    def _gauges(self) -> Iterator[Metric]:
        now = self._counts
        yield self._gauge("num_requests_running", "Requests that run.", now.num_running)
        yield self._gauge("num_requests_waiting", "Requests that wait to run.", now.num_waiting)
        yield self._gauge("kv_cache_usage_perc", "Share of the blocks in use, 0 to 1.", now.kv_cache_usage)

    def _counters(self) -> Iterator[Metric]:
        so_far = self._counts
        yield self._counter(
            "prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", so_far.num_queried_tokens
        )
        yield self._counter("prefix_cache_hits", "Prompt tokens found in the prefix cache.", so_far.num_cached_tokens)
        yield self._counter("num_preemptions", "Preemptions.", so_far.num_preemptions)
        yield self._counter("prompt_tokens", "Tokens of prompts, cached ones too.", so_far.num_prompt_tokens)
        yield self._counter("generation_tokens", "Tokens generated.", so_far.num_generation_tokens)
        finished = CounterMetricFamily(
            "vllm:request_success", "Requests that ended, by reason.", labels=(*LABELS, "finished_reason")
        )
        for reason, count in so_far.num_finished.items():
            finished.add_metric((*self._labels, reason), count)
        yield finished

    def _histograms(self) -> Iterator[Metric]:
        of = self._counts
        yield self._histogram("iteration_tokens_total", "Tokens scheduled in a step.", of.step_tokens)
        yield self._histogram("time_to_first_token_seconds", "From arrival to first token.", of.time_to_first_token)
        yield self._histogram(
            "inter_token_latency_seconds", "From a request's tokens to its next.", of.inter_token_latency
        )
        yield self._histogram(
            "request_time_per_output_token_seconds",
            "A request's mean time from token to token.",
            of.time_per_output_token,
        )
        yield self._histogram("e2e_request_latency_seconds", "From arrival to last token.", of.e2e_latency)
        yield self._histogram("request_queue_time_seconds", "From arrival to first step.", of.queue_time)

    def _drafts(self) -> Iterator[Metric]:
        drafts = self._counts.drafts
        if drafts is None:
            return
        yield self._counter("spec_decode_num_drafts", "Requests with drafts in a step.", drafts.num_drafts)
        yield self._counter("spec_decode_num_draft_tokens", "Draft tokens verified.", drafts.num_draft_tokens)
        yield self._counter("spec_decode_num_accepted_tokens", "Draft tokens accepted.", drafts.num_accepted_tokens)
        by_place = CounterMetricFamily(
            "vllm:spec_decode_num_accepted_tokens_per_pos", "Accepted, by place.", labels=(*LABELS, "position")
        )
        for position, count in enumerate(drafts.num_accepted_tokens_per_pos):
            by_place.add_metric((*self._labels, str(position)), count)
        yield by_place

    def _gauge(self, name: str, about: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", about, labels=LABELS)
        family.add_metric(self._labels, value)
        return family

    def _counter(self, name: str, about: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", about, labels=LABELS)
        family.add_metric(self._labels, value)
        return family

    def _histogram(self, name: str, about: str, histogram: Histogram) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", about, labels=LABELS)
        family.add_metric(self._labels, histogram.buckets(), histogram.total)
        return family
