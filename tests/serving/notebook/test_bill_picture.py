"""The drawing of a bill agrees with its text, and stays readable when a request is long."""

import re
from dataclasses import replace

import pytest

from course.fresh.jobs import play_workload
from course.notebook import Lab, Notice
from course.views.picture import Picture
from course.workloads.timed_request import TimedRequest
from mini_vllm import EngineConfig
from serving.notebook import bill_of, draw_bills
from serving.notebook.bill import Bill, ServedRun

CONFIG = EngineConfig(max_num_seqs=1, max_num_batched_tokens=64, max_model_len=300, block_size=4, num_gpu_blocks=101)


def served(*requests: TimedRequest, config: EngineConfig = CONFIG) -> ServedRun:
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
    tight = replace(CONFIG, max_num_seqs=4, num_gpu_blocks=11, enable_prefix_caching=False)
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


def test_a_label_that_no_request_has_is_an_error_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no request 'Z' has arrived; there are A, B"):
        draw_bills(RUN, "Z")
    with pytest.raises(ValueError, match="at least one request"):
        draw_bills(RUN)


def test_a_notice_is_passed_on() -> None:
    notice = Notice("missing", "phase 4")
    assert draw_bills(notice, "A") is notice
    assert bill_of(notice, "A") is notice
