"""`/metrics`: vLLM's names, and figures that match the work done; the alerts and the dashboard query no others."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from string import ascii_lowercase
from typing import Any

import httpx
import pytest
import yaml
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.counts import BucketCounts
from mini_vllm_labs.upkeep.incidents import __main__ as command
from mini_vllm_labs.upkeep.incidents.__main__ import OPERATE, NoPrometheusError, panel_queries
from mini_vllm_labs.upkeep.incidents.injected import HEALTHY, INCIDENTS
from tests.serving.running import COMPLETION, FAKE, MODEL, ServerUnderTest, serving, wait_until

Samples = dict[str, float]
VLLM_NAMES = {
    *("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"),
    *("prefix_cache_queries_total", "prefix_cache_hits_total", "num_preemptions_total", "prompt_tokens_total"),
    *("generation_tokens_total", "request_success_total", "time_to_first_token_seconds", "inter_token_latency_seconds"),
    *("request_time_per_output_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds"),
    *("iteration_tokens_total", "request_prefill_time_seconds", "request_decode_time_seconds", "cache_config_info"),
    *("request_inference_time_seconds", "request_prompt_tokens", "request_generation_tokens", "request_params_n"),
    *("request_params_max_tokens", "num_requests_waiting_by_reason", "prompt_tokens_cached_total"),
    *("prompt_tokens_by_source_total", "admission_rejections_total", "request_num_preemptions"),
    *("request_prefill_kv_computed_tokens",),
}
METRIC = re.compile(r"vllm:\w+")


@pytest.fixture
def server() -> Iterator[ServerUnderTest]:
    with serving(replace(FAKE, num_gpu_blocks=20), model_name="m") as server:
        yield server


def scrape(server: ServerUnderTest) -> Samples:
    """Return the samples, keyed by name without `vllm:` and by all labels except model and engine."""
    page = httpx.get(f"{server.address}/metrics")
    assert page.status_code == 200, "no redirect"
    samples: Samples = {}
    for family in text_string_to_metric_families(page.text):
        for sample in family.samples:
            # in vLLM, rejections are counted by the front end, not the engine
            assert sample.labels.pop("engine", "0") == "0"
            if sample.name == "vllm:cache_config_info":  # as in vLLM, its labels are the settings and the engine
                assert sample.labels.keys() >= {"block_size", "num_gpu_blocks"}
                samples["cache_config_info"] = sample.value
                continue
            assert sample.labels.pop("model_name")
            labels = ",".join(sample.labels.values())
            samples[sample.name.removeprefix("vllm:") + (f" {labels}" if labels else "")] = sample.value
    return samples


def gauges(server: ServerUnderTest) -> tuple[float, float, float]:
    samples = scrape(server)
    return samples["num_requests_running"], samples["num_requests_waiting"], samples["kv_cache_usage_perc"]


def test_the_names_are_those_of_vllm(server: ServerUnderTest) -> None:
    found = {name.split()[0] for name in scrape(server)}
    of_histograms = {f"{name}{end}" for name in VLLM_NAMES for end in ("_bucket", "_count", "_sum")}
    assert found - of_histograms == {name for name in VLLM_NAMES if f"{name}_bucket" not in found}
    assert {name for name in VLLM_NAMES if not {name, f"{name}_bucket"} & found} == set()


def test_tokens_and_times_of_finished_requests(server: ServerUnderTest, client: OpenAI) -> None:
    for _ in range(2):
        client.completions.create(model="m", prompt="x" * 40, max_tokens=10)
    samples = scrape(server)
    counts = {
        **{"prompt_tokens_total": 80, "prefix_cache_queries_total": 80, "prefix_cache_hits_total": 32},
        **{"generation_tokens_total": 20, "request_success_total length": 2, "time_to_first_token_seconds_count": 2},
        **{"inter_token_latency_seconds_count": 18, "e2e_request_latency_seconds_count": 2},
        **{"request_queue_time_seconds_count": 2, "request_time_per_output_token_seconds_count": 2},
        **{"iteration_tokens_total_count": 20, "iteration_tokens_total_sum": 40 + 8 + 2 * 9, "cache_config_info": 1},
        **{"request_prompt_tokens_sum": 80, "request_prompt_tokens_bucket 20.0": 0},
        **{"request_prompt_tokens_bucket 50.0": 2, "request_generation_tokens_sum": 20},
        **{"request_params_max_tokens_sum": 20, "request_params_max_tokens_count": 2},
        **{"prompt_tokens_cached_total": 32, "prompt_tokens_by_source_total local_compute": 48},
        **{"prompt_tokens_by_source_total local_cache_hit": 32, "request_num_preemptions_bucket 1.0": 2},
        **{"prompt_tokens_by_source_total external_kv_transfer": 0, "request_prefill_kv_computed_tokens_sum": 48},
        **{"request_params_n_sum": 2, "request_prefill_time_seconds_count": 2, "request_decode_time_seconds_count": 2},
    }
    assert {name: samples[name] for name in counts} == counts
    assert samples["e2e_request_latency_seconds_sum"] >= samples["time_to_first_token_seconds_sum"] > 0
    seconds = {
        part: samples[f"request_{part}_time_seconds_sum"] for part in ("queue", "prefill", "decode", "inference")
    }
    assert seconds["inference"] == pytest.approx(seconds["prefill"] + seconds["decode"])
    assert samples["e2e_request_latency_seconds_sum"] == pytest.approx(seconds["queue"] + seconds["inference"])
    client.completions.create(model="m", prompt=["abc", "abd"], max_tokens=1, n=3)
    after = scrape(server)
    assert after["request_params_n_sum"] - samples["request_params_n_sum"] == 6, "two prompts with n = 3, not six of 1"
    assert after["request_params_n_bucket 2.0"] == 2


def test_the_queues_while_requests_wait_and_run(server: ServerUnderTest) -> None:
    fields: Any = {"prompt": "x" * 150, "max_tokens": 5}
    connections = [*(server.ask_paused(COMPLETION, model="m", cache_salt=salt, **fields)[0] for salt in "abc")]
    assert gauges(server) == (0, 3, 0)
    server.step_once()
    assert gauges(server) == pytest.approx((1, 2, 10 / 19))
    server.llm.resume()
    assert [connection.read_answer()[0] for connection in connections] == [200] * 3
    server.wait_until_idle()
    assert gauges(server) == (0, 0, 0)


def test_preemptions_aborts_and_stops_are_counted(server: ServerUnderTest, client: OpenAI) -> None:
    both = [server.ask_paused(COMPLETION, model="m", prompt=letter * 100, max_tokens=60)[0] for letter in "xy"]
    server.llm.resume()
    assert [connection.read_answer()[0] for connection in both] == [200, 200]
    assert scrape(server)["num_preemptions_total"] > 0
    client.completions.create(model="m", prompt="abc", stop=[" ", *ascii_lowercase])
    assert scrape(server)["request_success_total stop"] == 1
    [connection] = server.ask_paused(model="m")
    connection.close()
    wait_until(lambda: scrape(server)["request_success_total abort"] == 1, "the abort is counted")
    samples = scrape(server)
    assert samples["num_requests_waiting"] == 0
    assert samples["prompt_tokens_total"] == 203, "a prompt that is computed again counts once"


def test_drafts_are_counted_where_there_are_some() -> None:
    config = EngineConfig(num_gpu_blocks=100, speculative_config=SpeculativeConfig())
    llm = AsyncLLM(build_engine(config, parse_lineup("solution:1-5,solution:7")))
    with serving(llm) as server, server.client_of() as client:
        client.completions.create(model=MODEL, prompt="abcabcabcabc" * 10, max_tokens=60)
        samples = scrape(server)
    assert samples["spec_decode_num_draft_tokens_total"] >= samples["spec_decode_num_drafts_total"] > 0
    accepted = [samples[f"spec_decode_num_accepted_tokens_per_pos_total {position}"] for position in range(4)]
    assert sum(accepted) == samples["spec_decode_num_accepted_tokens_total"]


def test_a_value_counts_in_the_bucket_of_the_next_bound() -> None:
    histogram = BucketCounts((1, 8, 16))
    for value in (0.5, 1, 1.5, 8, 17):
        histogram.observe(value)
    assert histogram.buckets() == {"1.0": 2, "8.0": 4, "16.0": 4, "+Inf": 5}
    assert histogram.total == 28


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((OPERATE / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_every_alert_and_panel_asks_for_metrics_that_the_server_has() -> None:
    queries = [query for panel in panel_queries().values() for query in panel]
    asked = {name for text in (*queries, *(rule["expr"] for rule in rules())) for name in METRIC.findall(text)}
    with serving(FAKE) as server, server.client_of() as client:
        client.completions.create(model="mini-vllm", prompt="abc", max_tokens=2)
        known = {f"vllm:{name.split()[0]}" for name in scrape(server)}
    assert asked
    assert asked <= known


def test_every_alert_has_an_incident_and_says_what_to_turn() -> None:
    assert [rule["alert"] for rule in rules()] == [one.alert for one in INCIDENTS if one.alert != HEALTHY]
    assert len(INCIDENTS) == 11
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "knob"}


def test_panels_are_placed_without_overlap_and_numbered() -> None:
    panels = json.loads((OPERATE / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels})
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


@pytest.mark.parametrize(
    ("fired", "empty", "problems"),
    [
        ({("EngineDown", "EngineDown"): 8.0}, [], []),
        ({}, [], ["EngineDown has fired nothing within 30 s"]),
        ({("EngineDown", "EngineDown"): 8.0, ("nothing", "QueueLong"): 9.0}, [], ["nothing has fired QueueLong"]),
        ({("EngineDown", "EngineDown"): 8.0, ("EngineDown", "QueueLong"): 9.0}, [], ["EngineDown has"]),
        ({("EngineDown", "EngineDown"): 8.0}, ["Requests"], ["the panel Requests has no data"]),
    ],
)
def test_a_missing_alert_and_one_too_many_are_problems(
    fired: dict[tuple[str, str], float], empty: list[str], problems: list[str]
) -> None:
    found = command.problems_of(fired, [HEALTHY, "EngineDown"], empty)
    assert len(found) == len(problems)
    assert all(text.startswith(start) for text, start in zip(found, problems, strict=True))


@pytest.mark.parametrize("required", [False, True])
def test_without_prometheus_it_says_so_and_fails_only_if_required(
    required: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise NoPrometheusError("promtool is not installed: run install_prometheus.sh")

    monkeypatch.setattr(command, "check_files", missing)
    monkeypatch.delenv("REQUIRE_PROMETHEUS", raising=False)
    if required:
        monkeypatch.setenv("REQUIRE_PROMETHEUS", "1")
    assert command.main() == required
    assert "The alerts were not tried: promtool is not installed" in capsys.readouterr().out
