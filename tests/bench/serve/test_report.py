"""The figures of a round, computed from answers with known times, and the search for the highest rate."""

from collections.abc import Callable

import pytest

from mini_vllm_labs.bench.serve.answer import ClientAnswer
from mini_vllm_labs.bench.serve.comparison import search_case
from mini_vllm_labs.bench.serve.completion import Round
from mini_vllm_labs.bench.serve.load import RateSearch
from mini_vllm_labs.bench.serve.report import Objective, RoundReport, parse_objective, report
from mini_vllm_labs.bench.serve.server_process import OURS
from mini_vllm_labs.bench.serve.view import as_vllm_prints, client_line


def answer(
    sent: float, token_times: list[float], error: str | None = None, num_tokens: int | None = None
) -> ClientAnswer:
    return ClientAnswer(
        planned=sent,
        sent=sent,
        ended=token_times[-1] if token_times else sent + 1,
        token_times=token_times,
        num_prompt_tokens=10,
        num_output_tokens=len(token_times) if num_tokens is None else num_tokens,
        error=error,
    )


def figures(answers: list[ClientAnswer], seconds: float = 10.0, objective: Objective | None = None) -> RoundReport:
    return report(Round(answers, [0.0] * len(answers), seconds, 2.5), objective)


def test_totals_and_rates_count_completed_requests_alone() -> None:
    found = figures([answer(0, [1.0, 2.0, 4.0]), answer(1, [2.0]), answer(2, [], "HTTP 429: full")])
    assert (found.completed, found.failed) == (2, {"HTTP 429: full": 1})
    assert (found.total_input_tokens, found.total_output_tokens) == (20, 4)
    assert found.request_throughput == pytest.approx(0.2)
    assert found.output_throughput == pytest.approx(0.4)
    assert found.total_token_throughput == pytest.approx(2.4)
    assert found.cpu_share == pytest.approx(0.25)
    assert found.ttft.mean == pytest.approx(1.0)
    assert found.tpot.mean == pytest.approx(1.5), "the answer of one token has none"
    assert found.itl.mean == pytest.approx(1.5)
    assert found.e2el.p99 == pytest.approx(4.0)


def test_several_tokens_in_one_part_count_as_such() -> None:
    found = figures([answer(0, [1.0, 3.0], num_tokens=5)])
    assert found.tpot.mean == pytest.approx(0.5)
    assert found.itl.mean == pytest.approx(2.0)


def test_a_round_in_which_all_failed_has_figures_too() -> None:
    found = figures([answer(0, [], "HTTP 500")], objective=Objective(ttft=1.0))
    assert (found.completed, found.request_goodput, found.ttft.p99) == (0, 0.0, 0.0)


def test_the_peak_is_that_of_requests_under_way() -> None:
    assert figures([answer(0, [2.0]), answer(1, [3.0]), answer(2, [4.0])]).peak_concurrent == 2
    assert figures([answer(0, [9.0]), answer(1, [3.0]), answer(2, [4.0])]).peak_concurrent == 3


def test_goodput_counts_what_keeps_every_limit() -> None:
    answers = [answer(0, [0.1, 0.2]), answer(0, [0.3, 0.35]), answer(0, [0.1, 0.9]), answer(0, [0.1], "cut")]
    assert figures(answers, objective=parse_objective(["ttft:200 tpot:150"])).request_goodput == pytest.approx(0.1)
    assert figures(answers, objective=parse_objective(["e2el:400"])).request_goodput == pytest.approx(0.2)
    assert figures(answers).request_goodput is None


def test_objectives_are_parsed_as_vllm_writes_them() -> None:
    assert parse_objective(["ttft:200", "tpot:50"]) == parse_objective(["ttft:200 tpot:50"]) == Objective(200, 50)
    assert parse_objective([]) is None
    for text in ("ttft", "ttft:", "ttft:0", "ttft:-1", "itl:3", "ttft:nan"):
        with pytest.raises(ValueError, match="NAME:MILLISECONDS, where NAME is one of ttft, tpot, e2el"):
            parse_objective([text])


def test_the_report_has_vllms_lines_and_says_when_the_client_was_late() -> None:
    found = figures([answer(0, [1.0, 2.0]), answer(2, [], "HTTP 429: full")], objective=Objective(ttft=2000))
    shown = as_vllm_prints("mini-vllm", found).splitlines()
    for label, number in (("Successful requests:", "1"), ("Failed requests:", "1"), ("P99 TTFT (ms):", "1000.00")):
        assert f"{label:<40} {number}" in [line.rstrip() for line in shown]
    assert "Request goodput (req/s):                 0.10" in [line.rstrip() for line in shown]
    assert shown[-1] == "failed: 1 x HTTP 429: full"
    assert "fell behind" not in shown[-2]
    late = report(Round([answer(0, [1.0])], [0.2], 1.0, 1.0))
    assert "p99 200.0 ms): it fell behind" in client_line(late)


def probe_of(
    capacity: float, ttft: float = 0.1, fails: Callable[[float], bool] = lambda rate: False
) -> Callable[[float], RoundReport]:
    """Return a server that answers `capacity` requests per second, one after another, each with one token."""

    def probe(rate: float) -> RoundReport:
        answers, free = [], 0.0
        for number in range(200):
            sent = number / rate
            free = max(free, sent) + 1 / capacity
            answers.append(ClientAnswer(sent, sent, free, [sent + ttft], num_output_tokens=1, finish_reason="stop"))
        if fails(rate):
            answers[-1].error = "HTTP 429"
        return report(Round(answers, [0.0], free, 0.0))

    return probe


def search_rate(probe: Callable[[float], RoundReport], first: float, bound: float, num_probes: int) -> RateSearch:
    search = RateSearch(bound, first)
    for _ in range(num_probes):
        search.record(rate := search.next_rate(), probe(rate))
    return search


@pytest.mark.parametrize("first", [1.0, 7.0, 100.0])
def test_the_search_closes_in_on_the_capacity(first: float) -> None:
    search = search_rate(probe_of(10.0), first, bound=1.0, num_probes=12)
    assert search.highest is not None
    assert search.lowest_failed is not None
    assert search.highest < search.lowest_failed < 1.05 * search.highest
    assert 10.0 <= search.highest <= 12.0, "10% of the requests may be left over"
    assert len(search.probed) == 12


def test_late_first_tokens_and_failed_requests_do_not_hold() -> None:
    late = search_rate(probe_of(1e6, ttft=1.1), 8.0, bound=1.0, num_probes=3)
    assert (late.highest, late.lowest_failed) == (None, 2.0)
    assert [probed.rate for probed in late.probed] == [8.0, 4.0, 2.0]
    refusing = search_rate(probe_of(1e6, fails=lambda rate: rate > 5), 4.0, bound=1.0, num_probes=4)
    assert [probed.num_failed for probed in refusing.probed] == [0, 1, 1, 0]
    assert refusing.highest == pytest.approx(4 * 2**0.25)


def test_without_a_limit_the_rate_is_doubled() -> None:
    search = search_rate(probe_of(1e9), 4.0, bound=1.0, num_probes=3)
    assert (search.highest, search.lowest_failed) == (16.0, None)


def test_a_server_that_held_no_rate_has_no_ratio_but_its_probes_are_shown() -> None:
    capacities = {OURS: 30.0, "b": 10.0}
    searches = {name: search_rate(probe_of(capacity), capacity, 1.0, 3) for name, capacity in capacities.items()}
    searches["never"] = search_rate(probe_of(1e6, ttft=1.1), 8.0, 1.0, 3)
    case = search_case(1.0, searches, OURS)
    assert list(case.sides) == [OURS, "b"]
    assert case.ratio("b") == pytest.approx(3.0)
    assert "2.00 requests/s: not sustained, p99 1100 ms, 0% piled up, 0 failed." in case.notes[2]
    assert search_case(1.0, {"never": searches["never"]}, OURS).base == ""


@pytest.mark.parametrize(("rate", "left_over"), [(5.0, 0.0), (9.9, 0.0), (20.0, 0.5), (40.0, 0.75)])
def test_what_is_left_over_is_the_share_above_the_capacity(rate: float, left_over: float) -> None:
    assert probe_of(10.0)(rate).left_over == pytest.approx(left_over, abs=0.02)
