"""Charts in a cell: differences are drawn, identical runs are reported as such, and missing or recorded runs are
marked."""

from dataclasses import replace

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.notebook import Notice, goodput_bars, seat_bars, serve, served_bars, user_bars, waits
from mini_vllm_labs.notebook.charts import Measure, bar_charts, count, percent
from mini_vllm_labs.notebook.lab import Lab
from mini_vllm_labs.notebook.measurements import Measurement
from mini_vllm_labs.notebook.panels import require_result
from mini_vllm_labs.notebook.result_facts import ByUser, goodput_of
from mini_vllm_labs.notebook.simulated import workload_bars
from mini_vllm_labs.pictures.bars import SHARE
from mini_vllm_labs.pictures.policy_comparison import PolicyComparison, compare_policies
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.served import Served, Slo
from tests.views.svg_reader import texts, tree

LENGTH: list[Measure[str]] = [
    Measure("letters", lambda word: float(len(word)), count),
    Measure("share of a", lambda word: word.count("a") / len(word), percent, others=SHARE),
]
MISSING = Notice("missing", "phase 4")


def test_what_is_equal_is_said_in_a_line() -> None:
    charts = require_result(bar_charts({"one": "aab", "two": "aabaab"}, LENGTH, ["Words."]))
    assert [picture.title for picture in charts.pictures] == ["letters"]
    assert charts.below == ["The same in all: share of a 67%.", "Words."]
    assert charts.rows["two"] == {"letters": "6", "share of a": "67%"}


def test_where_nothing_differs_all_that_is_not_zero_is_drawn() -> None:
    charts = require_result(bar_charts({"one": "xyz", "two": "zyx"}, LENGTH))
    assert [picture.title for picture in charts.pictures] == ["letters"]
    assert charts.below == ["The same in all: share of a 0%."]


def test_a_notice_takes_the_place_of_all_charts() -> None:
    results: dict[str, str | Notice] = {"one": "a", "two": MISSING}
    assert bar_charts(results, LENGTH) is MISSING
    assert waits({"one": MISSING}) is MISSING
    assert seat_bars(MISSING, [1]) is MISSING
    assert goodput_bars({"load": MISSING}) is MISSING
    assert user_bars({"FCFS": MISSING}, [0, 1]) is MISSING


def test_a_recorded_run_is_marked() -> None:
    played = require_result(Lab(1, "solution").play([TimedRequest(0, "A", [65] * 4, max_tokens=2)]))
    for charts in (waits({"run": played}), waits({"run": replace(played, recorded="Recorded.")})):
        marked = repr(charts).startswith("Recorded.")
        assert ("Recorded." in require_result(charts)._repr_mimebundle_()["text/html"]) == marked
    assert marked


def test_the_figures_of_served_requests_are_the_simulators() -> None:
    lab = Lab(5, "solution")
    served = {f"{blocks} blocks": serve(lab, "documents", 6.0, 40, num_gpu_blocks=blocks) for blocks in (1_000, 4_000)}
    charts = require_result(served_bars(served))
    for name, each in served.items():
        assert isinstance(each, Served)
        assert charts.rows[name]["most at once"] == str(each.most_running)
        assert charts.rows[name]["tokens computed"] == f"{each.num_computed_tokens:,}"
        drawn = [word for picture in charts.pictures for word in texts(tree(picture))]
        assert charts.rows[name]["TTFT, p95"] in drawn


def test_goodputs_and_users_share_a_scale() -> None:
    results = compare_policies(PolicyComparison(num_requests=60), parse_lineup("solution:1-5"))
    charts = require_result(goodput_bars({"load 150 %": results}))
    for policy in ("fcfs", "priority", "sjf-noisy"):
        shown = float(charts.rows["load 150 %"][f"{policy}: goodput per second"])
        assert shown == round(goodput_of(policy, results), 2)
    assert goodput_of("fcfs", results) == results[0].served.goodput(Slo())
    users = [number % 2 for number in range(60)]
    assert ByUser(results[0].served, users).wait_of(1) in results[0].served.times_to_first_token[1::2]
    assert "user 1: TTFT, p95" in require_result(user_bars({"FCFS": results[0].served}, users)).rows["FCFS"]


def test_seats_are_counted_and_other_texts_are_named() -> None:
    measured = [Measurement(2.0, 20, 10, ["a"]), Measurement(1.0, 20, 5, ["a"])]
    charts = require_result(seat_bars(measured, [1, 4]))
    assert charts.rows["1 seat"] == {"steps": "10", "time of a step": "200 ms", "tokens per second": "10"}
    assert charts.below == ["The same in all: time of a step 200 ms.", "The same texts."]
    assert (
        "DIFFERENT texts!" in require_result(seat_bars([measured[0], replace(measured[1], texts=["b"])], [1, 4])).below
    )


def test_every_workload_has_its_lengths_and_its_words() -> None:
    charts = require_result(workload_bars())
    assert charts.rows["documents"]["prompt tokens, longest"] == "12,000"
    assert any(line.startswith("mixed: nine chats") for line in charts.below)
