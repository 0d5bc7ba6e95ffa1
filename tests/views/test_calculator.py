"""The calculator shows the figures of the simulator's roofline."""

from dataclasses import replace

import pytest

from course.simulator import roofline
from course.simulator.gpus import GPUS, Gpu, find_gpu
from course.simulator.model_shapes import MODEL_SHAPES, ModelShape, find_model_shape
from course.views.calculator import Setup, calculator, calculator_picture, capacity_of
from course.views.calculator.figures import memory_parts, table
from course.views.figures import digits, memory
from tests.views.test_chunking_dial import words_in

H100, LLAMA_8B = find_gpu("H100"), find_model_shape("Llama-3.1-8B")


def test_llama_8b_on_an_h100() -> None:
    """The figures of a setup that can be done by hand: 72 GiB, less 15 for weights and 2 for the workspace."""
    capacity = capacity_of(Setup())
    assert capacity.kv_bytes_per_token == 128 * 2**10
    assert capacity.kv_bytes_per_block == 2 * 2**20
    assert capacity.num_blocks == roofline.num_kv_blocks(H100, LLAMA_8B) == 28_181
    assert (capacity.concurrency, capacity.batch_size) == (28_180 // 512, 55)
    assert capacity.saturation_batch == roofline.saturation_batch(H100)
    assert capacity.decode.tokens_per_second == roofline.decode_tokens_per_second(H100, LLAMA_8B, 55, 8192)
    assert capacity.prefill.tokens_per_second == roofline.prefill_tokens_per_second(H100, LLAMA_8B, 8192)


@pytest.mark.parametrize(
    "setup", [Setup(), Setup("Llama-3.1-70B", num_gpus=4, bytes_per_number=1), Setup("embedded", context_len=512)]
)
def test_every_figure_is_in_picture_and_text_alternative(setup: Setup) -> None:
    capacity = capacity_of(setup)
    picture = calculator_picture(capacity)
    words = words_in(picture)
    for name, value in table(capacity):
        assert name in words
        assert value in words
        assert f"{name}: {value}\n" in picture.text_alternative
    for name, size in memory_parts(capacity):
        assert f"{name} {memory(size)}" in words
        assert f"{name} {memory(size)}" in picture.text_alternative
    assert f"gpu_memory_utilization {setup.gpu_memory_utilization:.2f}" in picture.text_alternative
    assert f"ridge at {digits(capacity.ridge)}" in picture.text_alternative
    assert picture.sentence in picture.text_alternative


@pytest.mark.parametrize("shape", MODEL_SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_points_lie_on_the_roof_and_the_bar_holds_the_memory(shape: ModelShape, gpu: Gpu) -> None:
    capacity = capacity_of(Setup(shape.name, gpu.name, context_len=2048))
    for work in (capacity.decode, capacity.prefill):
        roof = min(capacity.peak_flops, work.intensity * capacity.bandwidth)
        assert work.flop_rate == pytest.approx(roof)
    used = sum(size for _, size in memory_parts(capacity))
    assert used == capacity.memory_bytes or capacity.problem
    assert bool(capacity.problem) == (capacity.num_blocks == 0)
    assert calculator_picture(capacity).height < 700


def test_a_request_is_a_notch() -> None:
    capacity = capacity_of(Setup(context_len=32_768))
    bar = next(layer.content for layer in calculator_picture(capacity).layers if layer.name == "memory")
    path = bar.split('class="notches"')[0].rsplit('d="', 1)[1]
    assert path.count("M") == capacity.concurrency == 13
    crowded = calculator_picture(capacity_of(Setup(context_len=512)))
    assert "notches" not in next(layer.content for layer in crowded.layers if layer.name == "memory")


def test_half_the_bytes_hold_twice_the_tokens_and_saturate_at_half_the_batch() -> None:
    two, one = capacity_of(Setup()), capacity_of(Setup(bytes_per_number=1))
    assert one.kv_bytes_per_token * 2 == two.kv_bytes_per_token
    assert one.saturation_batch * 2 == two.saturation_batch
    assert one.num_blocks > 2 * two.num_blocks
    lone = [capacity_of(replace(Setup(max_num_seqs=1), bytes_per_number=size)).decode for size in (1, 2)]
    assert lone[0].tokens_per_second == pytest.approx(2 * lone[1].tokens_per_second)


def test_a_model_that_does_not_fit_is_reported_and_drawn() -> None:
    picture = calculator_picture(capacity_of(Setup("Llama-3.1-70B")))
    assert picture.sentence.startswith("Llama-3.1-70B does not fit 1 x H100: its weights take 131.4 GiB")
    assert "mv-alert-line" in picture.svg()
    assert "1 request, if it fit" in picture.text_alternative
    cramped = calculator_picture(capacity_of(Setup(gpu="L4", context_len=131_072)))
    assert cramped.sentence.startswith("No request of 131,072 tokens fits: there is room for K and V of 38,000 tokens")
    with pytest.raises(ValueError, match=r"context_len is 65,536, but Qwen2\.5-7B takes 1 to 32,768"):
        capacity_of(Setup("Qwen2.5-7B", context_len=65_536))


def test_the_limits_of_batch_and_speed_are_named() -> None:
    assert "limit of the batch: memory." in calculator_picture(capacity_of(Setup())).sentence
    few = calculator_picture(capacity_of(Setup(max_num_seqs=8)))
    assert "limit of the batch: max_num_seqs, 8." in few.sentence
    assert "limit of its speed: bandwidth" in few.sentence
    many = capacity_of(Setup("Qwen3-32B", "B200", bytes_per_number=1, context_len=512, max_num_seqs=512))
    assert "limit of its speed: arithmetic" in calculator_picture(many).sentence


def test_the_panel_answers_and_explains() -> None:
    panel = calculator()
    panel.set(model="Qwen2.5-7B", gpu="L4")
    assert panel.answer["text_alternative"].startswith("Qwen2.5-7B with 16-bit numbers on L4")
    panel.set(context_len=131_072)
    assert panel.answer["error"].startswith("context_len is 131,072")
