"""The arena: its accounting, figures, loads and command."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mini_vllm.core.service_level import ServiceLevel
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm_labs.cli.main import app
from mini_vllm_labs.pictures.arena_report import LATENCIES, WORK, figures_table, front, goodput_table, pareto_picture
from mini_vllm_labs.policies.named import POLICIES
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.arena.contest import Estimate, run_race, run_races, serve_requests
from mini_vllm_labs.simulation.arena.figures import Accounts, figures_of, jain_index, quality_of_experience
from mini_vllm_labs.simulation.arena.loads import ArenaLoad, TraceLoad
from mini_vllm_labs.simulation.served import Served
from tests.cli.conftest import Commands
from tests.policies.races import EXPERIMENT, REFERENCE, races_of
from tests.views.svg_reader import SVG, layers

# Excerpts written by hand in the published formats: columns, order, units and quirks are original, but the requests are
# not. In each excerpt, the first two rows with an output are 1 s apart and request 10 and 20 tokens.
TRACES = {path.name: path for path in sorted(Path(__file__).with_name("traces").iterdir())}
# Four seats and few blocks: requests wait for seconds and are preempted, and no block is hit twice.
TIGHT = replace(
    EXPERIMENT.resolved_engine(), max_num_seqs=4, num_gpu_blocks=60, max_model_len=400, enable_prefix_caching=False
)
REQUESTS = [
    TimedRequest(0.0, str(number), [number] * (40 + 9 * number), 200 + number, tenant="ab"[number % 3 > 0])
    for number in range(16)
]


def test_jains_index_is_one_for_equal_shares_and_one_nth_for_a_single_taker() -> None:
    assert jain_index([3.0, 3.0, 3.0]) == 1
    assert jain_index([9.0, 0.0, 0.0]) == pytest.approx(1 / 3)


def test_an_interval_of_three_seeds_uses_students_t() -> None:
    found = Estimate.of([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.margin == pytest.approx(4.303 / 3**0.5)
    assert Estimate.of([0.1 + 0.2, 0.3, 0.3]).margin == 0, "what rounding adds is no spread"


def test_quality_is_one_in_time_and_falls_with_every_late_token() -> None:
    level = ServiceLevel("reader", ttft=1.0, tpot=0.5)
    request = TimedRequest(10.0, "a", [1], 4, service_level=level)
    in_time, late, later = [10.2, 10.3, 10.4, 10.5], [11.0, 11.5, 14.0, 14.1], [12.0, 14.0, 16.0, 18.0]
    # Tokens are expected at 11, 11.5, 12 and 12.5, and read until 15.
    # The areas are 4 + 3.5 + 3 + 2.5 and 4 + 3.5 + 1 + 0.5.
    assert quality_of_experience(request, in_time) == 1
    assert quality_of_experience(request, late) == pytest.approx(9 / 13)
    assert quality_of_experience(request, later) < quality_of_experience(request, late)


def test_figures_add_up_and_do_not_depend_on_the_process() -> None:
    races = races_of("fcfs", "priority", num_seeds=2)
    found = run_races(races)
    assert found == [run_race(race) for race in races]
    for run in found:
        assert 0 < run.jain_index <= 1
        assert 0 < run.qoe <= 1
        assert run.longest_wait >= run.ttft.p99
        assert sum(one.tokens_per_second for one in run.classes.values()) <= run.tokens_per_second * (1 + 1e-9)


def test_priority_serves_the_urgent_earlier_than_fcfs() -> None:
    load = ArenaLoad("burst", 400, 80.0)
    fcfs, priority = (run.classes["urgent"].share_good for run in run_races(races_of("fcfs", "priority", load=load)))
    assert priority > fcfs + 0.2


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_of_each_form_is_read(name: str) -> None:
    first, second, *_ = TraceLoad(str(TRACES[name])).requests(0)
    assert first.arrival_time == 0
    assert second.arrival_time == pytest.approx(1.0)
    assert (first.num_output_tokens, second.num_output_tokens) == (10, 20)
    one, other = list(first.prompt_token_ids), list(second.prompt_token_ids)
    assert (len(one), len(other)) == (first.num_prompt_tokens, second.num_prompt_tokens)
    shared = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
    assert shared == {"conversation_trace.jsonl": 512, "qwen_traceA_blksz_16.jsonl": 30}.get(name, 0)


def test_a_trace_keeps_who_sent_a_request_where_the_form_says_so(tmp_path: Path) -> None:
    tenants = {"BurstGPT_3.csv": ["GPT-4", "ChatGPT"], "qwen_traceA_blksz_16.jsonl": ["text", "search"]}
    for name, expected in tenants.items():
        (tmp_path / name).write_text(
            "\ufeff" * name.endswith(".csv") + TRACES[name].read_text("utf-8"), encoding="utf-8"
        )
        assert [one.tenant for one in TraceLoad(str(tmp_path / name)).requests(0)] == expected


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        # Azure 2025 (multimodal), BurstGPT 3, and a column that no load uses
        ("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n1,2,9,3\n", "NumImages (images are not encoded)"),
        ("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
         "1,7,2,GPT-4,9,3,12,Conversation log\n", "Session ID (a turn shares no prefix with"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens,Reasoning\n1,9,3,5\n", "Reasoning (not known)"),
    ],
)  # fmt: skip
def test_a_column_that_is_not_used_is_said(text: str, lost: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    result = CliRunner().invoke(app, ["arena", "fcfs", "--trace", str(tmp_path / "a.csv"), "--seeds", "1"])
    assert f"a.csv has columns that the arena ignores: {lost}" in " ".join(result.output.split())
    assert all(not TraceLoad(str(path)).left_out() or path.name == "BurstGPT_3.csv" for path in TRACES.values())


def test_a_mooncake_request_without_hashes_counts_milliseconds_too(tmp_path: Path) -> None:
    line = '{"timestamp": %d, "input_length": 9, "output_length": 1, "hash_ids": []}\n'
    (tmp_path / "mooncake.jsonl").write_text(line % 1000 + line % 4000)
    assert [one.arrival_time for one in TraceLoad(str(tmp_path / "mooncake.jsonl")).requests(0)] == [0, 3]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.csv", "when,what\n1,2\n", "line 2: needs a column input_length or Request tokens or ContextTokens"),
        ("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,2\n", "line 2: Invalid isoformat string"),
        (
            "a.jsonl",
            '{"timestamp": 1, "input_length": 0, "output_length": 3}\n',
            "line 1: the prompt must have at least 1 token",
        ),
        ("a.jsonl", "[1, 2]\n", "line 1: must be a JSON object"),
        ("a.jsonl", '{"timestamp": 1, "hash_ids": 5}\n', "line 1: must be a JSON object whose hash_ids is a list"),
        ("a.jsonl", "timestamp\n", "line 1: Expecting value"),
        (
            "a.jsonl",
            '{"timestamp": NaN, "input_length": 1, "output_length": 3}\n',
            "line 1: an arrival time must be",
        ),
        ("a.jsonl", "\n", "contains no request that has an output"),
        ("a.txt", "", "must be a .csv or .jsonl file"),
    ],
)
def test_a_file_in_no_known_form_is_refused_by_its_line(name: str, text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=reason):
        TraceLoad(str(tmp_path / name)).requests(0)


def test_the_front_holds_what_nothing_beats() -> None:
    def at(seconds: float, jain: float) -> tuple[Estimate, Estimate]:
        return Estimate(seconds, 0), Estimate(jain, 0)

    places = {"slow and fair": at(3, 0.9), "beaten": at(4, 0.8), "fast": at(1, 0.5)}
    assert front(places) == ["fast", "slow and fair"]
    picture = pareto_picture(places, "three")
    assert "its requests take 3.00 times as long" in picture.sentence
    assert "beaten: 4 s a request, Jain's index 0.800\n" in picture.text_alternative
    assert all(name in str(picture.svg()) for name in places)


def test_all_policies_fit_into_80_columns_and_into_the_picture() -> None:
    runs = [run_race(race) for race in races_of("fcfs", num_seeds=2)]
    results, shown = dict.fromkeys(POLICIES, runs), io.StringIO()
    for table in (goodput_table(results), figures_table(results, LATENCIES), figures_table(results, WORK)):
        Console(file=shown, width=80).print(table)
    assert "…" not in shown.getvalue()
    place = Estimate.of([2.0]), Estimate.of([0.7])
    drawn = layers(pareto_picture(dict.fromkeys(POLICIES, place), "all in one place", 460))
    names = list(drawn["policies"].iter(f"{SVG}text"))
    assert re.sub("[ ,]", "", "".join("".join(text.itertext()) for text in names)) == "".join(POLICIES)
    ends = [float(str(text.get("y"))) for text in drawn["axes"].iter(f"{SVG}text")]
    assert max(float(str(text.get("y"))) for text in names) < max(ends)


def test_the_command_prints_every_figure_and_writes_the_picture(mini_vllm: Commands, tmp_path: Path) -> None:
    drawing = tmp_path / "pareto.svg"
    small = ("fcfs", "priority", "--requests", "60", "--seeds", "2")
    shown = mini_vllm("arena", *small, "--picture", str(drawing)).stdout
    for word in ("good %", "requests/s", "urgent", "TTFT", "TPOT", "E2E", "QoE", "Jain's", "twice", "hits", "±"):
        assert word in shown
    assert drawing.read_text().startswith("<svg")
    record = json.loads(mini_vllm("arena", *small, "--load", "50,100", "--json").stdout)
    assert len(record["loads"]) == 2
    assert all(len(runs) == 2 for load in record["loads"].values() for runs in load.values())


@pytest.fixture(scope="module")
def run() -> tuple[Served, Accounts]:
    return serve_requests(REQUESTS, SchedulingPolicy(), TIGHT, EXPERIMENT.cost, REFERENCE)


def test_what_is_computed_twice_is_what_no_request_needed(run: tuple[Served, Accounts]) -> None:
    served, accounts = run
    needed = sum(request.num_prompt_tokens + request.num_output_tokens - 1 for request in REQUESTS)
    assert served.num_preemptions > 0
    assert accounts.num_recomputed_tokens == served.num_computed_tokens - needed > 0


def test_service_counts_each_token_once(run: tuple[Served, Accounts]) -> None:
    _, accounts = run
    for tenant in "ab":
        own = [request for request in REQUESTS if request.tenant == tenant]
        assert accounts.service[tenant] == sum(r.num_prompt_tokens + 2 * r.num_output_tokens for r in own)


def test_a_window_has_the_service_of_its_own_time(run: tuple[Served, Accounts]) -> None:
    served, accounts = run
    assert served.seconds > 5
    assert len(accounts.windows) >= 2
    assert sum(map(sum, accounts.windows)) <= sum(accounts.service.values())


@pytest.mark.parametrize(
    ("level", "share"),
    [
        (ServiceLevel("all"), 1.0),
        (ServiceLevel("first", ttft=1e-6), 0.0),
        (ServiceLevel("pace", tpot=1e-6), 0.0),
        (ServiceLevel("end", e2e=1e-6), 0.0),
    ],
)
def test_each_promise_counts(level: ServiceLevel, share: float) -> None:
    requests = [replace(request, service_level=level) for request in REQUESTS[:4]]
    run = serve_requests(requests, SchedulingPolicy(), TIGHT, EXPERIMENT.cost, REFERENCE)
    assert figures_of(*run).share_good == share
