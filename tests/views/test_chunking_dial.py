"""The dial shows the simulator's figures, and what changed since the knob was turned."""

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from course.simulator.what_if import what_if
from course.views.chunking_dial import Deployment, Setting, chunking_dial, chunking_picture, try_setting
from course.views.chunking_dial.trial import arrivals
from course.views.figures import digits, seconds
from course.views.picture import Picture

SMALL = Deployment(num_requests=300)
WIDE, NARROW = Setting(), Setting(max_num_batched_tokens=512)


def words_in(picture: Picture) -> list[str]:
    """Return all texts of a picture, which must be well-formed."""
    root = ElementTree.fromstring(picture.svg())
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_picture_and_text_alternative_show_the_simulators_figures() -> None:
    trial = try_setting(NARROW, SMALL)
    rate, requests = arrivals(SMALL, "mixed", 90)
    served = what_if(requests, *SMALL.engine_and_cost(NARROW))
    first, between = served.time_to_first_token([50, 95, 99]), served.inter_token_latency([50, 95, 99])
    picture = chunking_picture(trial)
    words = words_in(picture)
    for name, times in (("time to first token", first), ("inter-token latency", between)):
        for percent, time in zip((50, 95, 99), times, strict=True):
            assert seconds(time) in words
            assert f"{name} p{percent}: {seconds(time)}\n" in picture.text_alternative
    for figure in (digits(served.output_tokens_per_second), f"{served.num_steps:,}"):
        assert figure in words
        assert f": {figure}\n" in picture.text_alternative
    assert f"{digits(rate)} per second" in picture.text_alternative
    assert picture.sentence in picture.text_alternative
    assert "mv-ghost" not in "".join(layer.content for layer in picture.layers)


def test_the_previous_setting_is_a_ghost_and_a_number() -> None:
    before, now = try_setting(WIDE, SMALL), try_setting(NARROW, SMALL)
    picture = chunking_picture(now, before)
    was, is_ = before.inter_token_latencies[99], now.inter_token_latencies[99]
    assert is_ < was, "a smaller budget makes for shorter steps"
    assert picture.sentence.startswith("max_num_batched_tokens 2,048 → 512: p50 time to first token ")
    assert f"; p99 inter-token latency {seconds(is_)}, was {seconds(was)}; output" in picture.sentence
    assert f"{seconds(is_)}, was {seconds(was)}" in words_in(picture)
    assert f"inter-token latency p99: {seconds(is_)}, was {seconds(was)}" in picture.text_alternative
    assert "before: max_num_batched_tokens 2,048" in words_in(picture)
    charts = [layer.content for layer in picture.layers if layer.name in ("time to first token", "inter-token latency")]
    assert all("mv-ghost" in chart for chart in charts)


def test_a_panel_remembers_the_previous_answer() -> None:
    panel = chunking_dial(num_requests=200)
    first = panel.answer["text_alternative"]
    assert "before:" not in first
    panel.set(max_num_batched_tokens=512)
    assert "before: max_num_batched_tokens 2,048" in panel.answer["text_alternative"]
    panel.set(max_num_batched_tokens=2048, load=120)
    assert "before: load 90 %, max_num_batched_tokens 512" in panel.answer["text_alternative"]
    panel.set(max_num_batched_tokens=1000.5)
    assert "max_num_batched_tokens" in panel.answer["error"]
    panel.set(max_num_batched_tokens=2048, load=90)
    assert "before:" not in panel.answer["text_alternative"], "a refused setting has no latencies"


def test_the_requests_do_not_depend_on_the_engines_settings() -> None:
    assert try_setting(WIDE, SMALL).rate == try_setting(replace(NARROW, max_num_seqs=8), SMALL).rate
    assert try_setting(replace(WIDE, load=45), SMALL).rate == pytest.approx(try_setting(WIDE, SMALL).rate / 2)


def test_a_peak_that_does_not_fit_in_memory_is_reported() -> None:
    trial = try_setting(Setting("documents", 120, 8192), Deployment("L4", num_requests=500))
    picture = chunking_picture(trial)
    assert trial.peak_context_tokens > trial.room_for_tokens
    assert f"{trial.peak_context_tokens:,} tokens, and {trial.room_for_tokens:,} fit" in picture.sentence
    assert "Not realistic" not in chunking_picture(try_setting(WIDE, SMALL)).sentence


def test_curves_rise() -> None:
    trial = try_setting(WIDE, SMALL)
    chart = next(layer.content for layer in chunking_picture(trial).layers if layer.name == "inter-token latency")
    data = re.findall(r'd="(M[^"]+)" fill="none" stroke="#', chart)
    points = [tuple(map(float, pair.split())) for pair in data[0][1:].split("L")]
    assert len(points) > 50
    assert all(one[0] <= other[0] and one[1] > other[1] for one, other in pairwise(points))


def test_unknown_machines_are_refused() -> None:
    with pytest.raises(ValueError, match="gpu must be one of"):
        chunking_dial(gpu="Z80")
    with pytest.raises(ValueError, match="does not fit"):
        chunking_dial(gpu="L4", model="Llama-3.1-70B")
    with pytest.raises(ValueError, match="embedded, which takes up to 2,048 tokens, but"):
        chunking_dial(model="embedded")
