"""A server in a notebook: whose code answers, parallel clients, a disconnect, failures, and a picture of a bill."""

import re
from dataclasses import replace
from urllib.request import urlopen

import psutil
import pytest
from openai import OpenAI

from mini_vllm import EngineConfig
from mini_vllm_labs.fresh.jobs import play_workload
from mini_vllm_labs.notebook import Lab, Notice
from mini_vllm_labs.notebook.serving import Heard, LabServer, bill_of, draw_bills
from mini_vllm_labs.notebook.serving.at_once import Refused
from mini_vllm_labs.notebook.serving.bill import Bill, ServedRun
from mini_vllm_labs.notebook.serving.lab_server import LabServerProcess
from mini_vllm_labs.notebook.serving.metrics_table import Metrics
from mini_vllm_labs.notebook.serving.notices import fetch
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from tests.serving.notebook.conftest import CONFIG, ask, message, stream
from tests.serving.running import PATIENCE, wait_until

TEXT = "one two three four five six seven eight nine ten"
ONE_SEAT = EngineConfig(max_num_seqs=1, max_num_batched_tokens=64, max_model_len=300, block_size=4, num_gpu_blocks=101)


def run_of(server: LabServer) -> ServedRun:
    run = server.run()
    assert isinstance(run, ServedRun), run
    return run


def metrics_of(server: LabServer) -> Metrics:
    metrics = server.metrics()
    assert isinstance(metrics, Metrics), metrics
    return metrics


def bill(run: ServedRun, label: str) -> Bill:
    found = bill_of(run, label)
    assert isinstance(found, Bill)
    return found


def test_it_says_whose_code_answers_and_where_and_has_a_page(server: LabServer) -> None:
    assert "1 scheduler step: reference" in repr(server)
    assert server.base_url in repr(server)
    shown = server._repr_mimebundle_()["text/html"]
    assert f'<a href="{server.address}/metrics"' in shown
    assert 'role="note"' not in shown
    assert "<html" in fetch(server.address, "/")
    with urlopen(f"{server.address}/live/stream", timeout=PATIENCE) as events:
        assert events.readline() == b"event: hello\n"
        assert b'"num_blocks":128' in events.readline()


def test_a_bill_agrees_with_the_usage_and_the_metrics(server: LabServer) -> None:
    answer = server.ask(ask(TEXT, 20))
    assert not isinstance(answer, Notice)
    usage, run = answer.usage, run_of(server)
    assert usage is not None
    one = bill(run, "A")
    assert (one.num_prompt_tokens, one.num_output_tokens) == (usage.prompt_tokens, 20)
    assert one.num_computed == usage.prompt_tokens + 19
    assert [item.num_tokens for item in one.items] == [usage.prompt_tokens, *[1] * 19]
    assert one.max_held_blocks == -(-one.num_computed // 8) == one.items[-1].num_blocks
    assert (one.end, one.num_waited, len(one.times)) == ("length", 0, 3)
    metrics = metrics_of(server)
    assert metrics["vllm:iteration_tokens_total_sum"] == one.num_computed
    assert metrics["vllm:time_to_first_token_seconds_sum"] == pytest.approx(sum(one.times[:2]))
    assert metrics["vllm:e2e_request_latency_seconds_sum"] == pytest.approx(sum(one.times))


def test_two_clients_share_every_step_and_a_third_is_refused_while_they_wait(server: LabServer) -> None:
    heard = server.at_once(A=stream(TEXT, 30), B=stream("zzz", 30), C=stream("c", 3))
    assert isinstance(heard, Heard)
    refused = heard.answers["C"]
    assert isinstance(refused, Refused)
    assert (heard.refused, refused.status, refused.retry_after) == (["C"], 429, "1")
    assert "max_num_waiting is 2" in refused.message
    assert "429, Retry-After: 1" in heard._repr_mimebundle_()["text/html"]
    assert set(heard.order) == {"A", "B"}, "their pieces come in turns"
    assert heard.in_order in repr(heard)
    run = run_of(server)
    assert [[item.step for item in bill(run, label).items] for label in "AB"] == [[*range(30)]] * 2
    assert len(run.token_ids) == 2


def test_the_blocks_of_a_client_that_hangs_up_come_back(server: LabServer) -> None:
    def hang_up(client: OpenAI) -> Metrics:
        events = client.chat.completions.create(**message(TEXT), max_tokens=400, stream=True)
        next(iter(events))
        wait_until(lambda: metrics_of(server)["vllm:iteration_tokens_total_count"] == 5, "five steps are taken")
        during = metrics_of(server)
        events.close()
        return during

    server.pause(after_steps=5)
    during = server.ask(hang_up)
    server.resume()
    assert isinstance(during, Metrics), during
    one, after = bill(run_of(server), "A"), metrics_of(server)
    assert (one.end, one.num_output_tokens, one.num_steps) == ("abort", 5, 5)
    assert during["vllm:kv_cache_usage_perc"] * 128 == one.items[-1].num_blocks
    assert after["vllm:kv_cache_usage_perc"] == 0
    assert after['vllm:request_success_total{finished_reason="abort"}'] == 1
    assert not isinstance(server.ask(ask("still there?", 2)), Notice)


def test_the_second_request_with_a_prefix_computes_the_rest_alone(server: LabServer) -> None:
    server.ask(ask(TEXT * 3, 2))
    server.ask(ask(TEXT * 3 + "!", 2))
    first, second = (bill(run_of(server), label) for label in "AB")
    assert second.num_cached_tokens == 8 * second.num_cached_blocks > 100
    assert second.items[0].num_tokens == second.num_prompt_tokens - second.num_cached_tokens
    assert first.num_cached_tokens == 0
    assert metrics_of(server)["vllm:prefix_cache_hits_total"] == second.num_cached_tokens


def test_refusals_become_notices_and_errors_of_the_cell_are_raised(server: LabServer) -> None:
    refused = str(server.ask(ask(TEXT * 50, 2)))
    assert "refused this: 400" in refused
    assert "max_model_len" in refused
    with pytest.raises(ZeroDivisionError):
        server.ask(lambda client: 1 / 0)
    server.close()
    for result in (server.ask(ask("a", 1)), server.metrics(), server.run(), server.at_once(A=stream("a", 1))):
        assert isinstance(result, Notice)
        assert "has ended" in str(result)


def test_the_process_ends_with_its_owner() -> None:
    server = LabServerProcess(CONFIG, Lab(5, "solution").lineup())
    process = psutil.Process(server._worker.pid)
    assert server.is_running
    del server
    wait_until(lambda: not process.is_running(), "the process has exited")


@pytest.mark.parametrize(
    ("lineup", "title"),
    [
        ("starter", "This needs a task that is not written yet"),  # the engine cannot be built here
        ("starter:1,solution:2-5", "The engine did not finish"),  # every step fails
    ],
)
def test_code_that_raises_is_named(lineup: str, title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm_labs.notebook.serving.lab_server.mark_for", lambda lineup: "")
    made = LabServer(Lab(5, lineup), CONFIG)
    answers = [made.problem] if made.problem is not None else [made.ask(ask("a", 1)), made.at_once(A=stream("a", 1))]
    made.close()
    for shown in answers:
        assert isinstance(shown, Notice)
        assert shown.title == title
        assert "Phase 1, task" in shown.text or "Phase 4, task 2" in shown.text
        assert "1 scheduler step: not written" in shown.text


def test_settings_that_cannot_be_served_are_named() -> None:
    made = LabServer(Lab(5, "solution"), replace(CONFIG, async_scheduling=True))
    assert made.problem is not None
    assert "async_scheduling needs phase 8" in str(made)
    assert "No server" in str(made.ask(ask("a", 1)))


def served(*requests: TimedRequest, config: EngineConfig = ONE_SEAT) -> ServedRun:
    run = play_workload(requests, config, Lab(5, "solution").lineup())
    return ServedRun(run.recording, run.token_ids, times={"A": [0.001, 0.02, 0.3]})


RUN = served(TimedRequest(0, "A", [1] * 10, 3), TimedRequest(0, "B", [2] * 100, 20))


def drawn(run: ServedRun, *labels: str) -> Picture:
    picture = draw_bills(run, *labels)
    assert isinstance(picture, Picture)
    return picture


def test_steps_tokens_and_blocks_of_a_request_that_waits() -> None:
    bill = bill_of(RUN, "B")
    assert isinstance(bill, Bill)
    assert [item.kind for item in bill.items] == ["waiting"] * 3 + ["prefill"] * 2 + ["decode"] * 19
    assert [item.num_tokens for item in bill.items[3:6]] == [64, 36, 1]
    assert [item.num_blocks for item in bill.items[3:6]] == [16, 25, 26]
    assert (bill.num_waited, bill.num_steps, bill.num_computed) == (3, 21, 119)
    assert bill.block_steps == sum(item.num_blocks for item in bill.items)


def test_a_picture_has_every_block_and_the_times_that_are_known() -> None:
    picture = drawn(RUN, "A")
    (blocks,) = (layer for layer in picture.layers if layer.name == "A-blocks")
    assert blocks.content.count("<rect") == 3 + 3 + 3
    assert picture.text_alternative.count("A, blocks in each step: 3 3 3") == 1
    for said in (picture.svg(), picture.text_alternative):
        assert "queued 1.00 ms, prefill 20.0 ms, decode 300 ms: 321 ms" in said
    assert "queued" not in f"{drawn(RUN, 'B').svg()}{drawn(RUN, 'B').text_alternative}"


def test_a_request_that_was_preempted_pays_for_its_prompt_twice() -> None:
    tight = replace(ONE_SEAT, max_num_seqs=4, num_gpu_blocks=11, enable_prefix_caching=False)
    run = served(
        TimedRequest(0, "A", list(range(16)), 12), TimedRequest(1, "B", list(range(100, 119)), 12), config=tight
    )
    bill = bill_of(run, "B")
    assert isinstance(bill, Bill)
    assert bill.num_computed > bill.num_prompt_tokens + 11
    kinds = [item.kind for item in bill.items]
    assert kinds.count("prefill") == 2
    assert kinds.count("waiting") == bill.num_waited > 0


def test_a_long_request_fits_into_the_picture() -> None:
    run = served(TimedRequest(0, "A", [1] * 10, 250))
    picture = drawn(run, "A")
    for one in (picture, picture.narrow):
        assert one is not None
        columns = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', one.svg())
        assert max(float(x) + float(wide) for x, wide in columns) <= one.width
        assert one.height < 400


def test_an_unknown_label_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no request 'Z' has arrived; choose from A, B"):
        draw_bills(RUN, "Z")
    with pytest.raises(ValueError, match="at least one request"):
        draw_bills(RUN)


def test_a_notice_is_passed_on() -> None:
    notice = Notice("missing", "phase 4")
    assert draw_bills(notice, "A") is notice
    assert bill_of(notice, "A") is notice
