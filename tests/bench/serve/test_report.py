"""The figures of a round, from answers with known times."""

import pytest
from rich.console import Console

from bench.serve.answer import ClientAnswer
from bench.serve.completion import Round
from bench.serve.report import Objective, RoundReport, parse_objective, report
from bench.serve.view import client_line, show_report


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
        with pytest.raises(ValueError, match="NAME:MILLISECONDS with a name of ttft, tpot, e2el"):
            parse_objective([text])


def test_the_report_has_vllms_lines_and_says_when_the_client_was_late(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures([answer(0, [1.0, 2.0]), answer(2, [], "HTTP 429: full")], objective=Objective(ttft=2000))
    show_report(Console(width=100), "mini-vllm", found)
    shown = capsys.readouterr().out
    for line in ("Successful requests:                     1", "Failed requests:                         1"):
        assert line in shown
    assert "Request goodput (req/s):                 0.10" in shown
    assert "P99 TTFT (ms):                           1000.00" in shown
    assert "failed: 1 x HTTP 429: full" in shown
    assert "fell behind" not in shown
    late = report(Round([answer(0, [1.0])], [0.2], 1.0, 1.0))
    assert "p99 200.0 ms): it fell behind" in client_line(late)
