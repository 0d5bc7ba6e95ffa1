"""CUDA graphs, as far as they can be tested without CUDA: sizes, padding, and logits that padding does not change."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.runner.graphs import GraphedModel, RecordedStep, bucket_for, bucket_sizes, fill, with_graphs
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.steps import FlatBatch, dummy_batch
from mini_vllm_labs.grading.labtest.phase6.batches import naive_flat_batch
from mini_vllm_labs.grading.plays.phase6_plays import row_of
from tests.model.shapes import VOCAB_SIZE, random_llama

STEPS = runner_steps_for("solution")
CPU = torch.device("cpu")
TABLES = {"A": [5, 2, 8], "B": [3, 6], "C": [7, 1]}


def step(lengths: dict[str, int], computed: dict[str, int]) -> FlatBatch:
    flat = naive_flat_batch([row_of(name, computed.get(name, 0), n, TABLES[name]) for name, n in lengths.items()], 4)
    flat.input_ids = flat.input_ids % VOCAB_SIZE
    return flat


PROMPTS = step({"A": 9, "B": 6, "C": 4}, {})
DECODES = step({"A": 1, "B": 1, "C": 1}, {"A": 9, "B": 6, "C": 4})
NEXT_DECODES = step({"A": 1, "B": 1}, {"A": 10, "B": 7})


@pytest.mark.parametrize(
    ("max_num_seqs", "sizes"),
    [(1, [1]), (3, [1, 2, 3]), (8, [1, 2, 4, 8]), (20, [1, 2, 4, 8, 16, 20]), (1000, [1, 2, 4, *range(8, 257, 8)])],
)
def test_sizes_end_with_the_largest_batch(max_num_seqs: int, sizes: list[int]) -> None:
    assert bucket_sizes(max_num_seqs) == sizes


def test_decodes_use_the_next_size_and_other_batches_use_no_graph() -> None:
    assert bucket_for(DECODES, [1, 2, 4, 8]) == 4
    assert bucket_for(NEXT_DECODES, [1, 2, 4, 8]) == 2
    assert bucket_for(DECODES, [1, 2]) is None
    assert bucket_for(PROMPTS, [1, 2, 4, 8]) is None
    mixed = step({"A": 1, "B": 2}, {"A": 9, "B": 4})
    assert bucket_for(mixed, [1, 2, 4, 8]) is None


def test_filling_overwrites_everything_from_the_previous_step() -> None:
    static = dummy_batch([1] * 4, 5, 4, CPU)
    fill(static, DECODES)
    assert static.block_tables.tolist() == [[5, 2, 8, 0, 0], [3, 6, 0, 0, 0], [7, 1, 0, 0, 0], [0] * 5]
    assert static.seq_lens.tolist() == [10, 7, 5, 1]
    addresses = [tensor.data_ptr() for tensor in (static.input_ids, static.block_tables, static.seq_lens)]
    fill(static, NEXT_DECODES)
    assert static.slot_mapping.tolist() == [*NEXT_DECODES.slot_mapping.tolist(), 0, 0]
    assert static.positions.tolist() == [10, 7, 0, 0]
    assert static.seq_lens.tolist() == [11, 8, 1, 1]
    assert [tensor.data_ptr() for tensor in (static.input_ids, static.block_tables, static.seq_lens)] == addresses


def raises(error: Exception) -> Callable[..., Any]:
    def function(*arguments: object) -> None:
        raise error

    return function


def model_on_cpu() -> PagedModel:
    return PagedModel(random_llama(), STEPS.write_kv, STEPS.paged_attention, num_blocks=9, block_size=4)


class ReplayedOnCpu:
    """A graph whose replay computes the step again, from its inputs into its logits."""

    def __init__(self, model: PagedModel, inputs: FlatBatch, logits: torch.Tensor) -> None:
        self.model, self.inputs, self.logits = model, inputs, logits

    def replay(self) -> None:
        self.inputs.__dict__.pop("groups", None)
        self.logits.copy_(self.model.forward(self.inputs))


def record_on_cpu(graphed: Any, size: int, longest_table: int) -> RecordedStep:
    inputs, logits = dummy_batch([1] * size, longest_table, 4, CPU), torch.zeros(size, VOCAB_SIZE)
    graph: Any = ReplayedOnCpu(graphed.model, inputs, logits)
    return RecordedStep(graph, inputs, logits)


@pytest.mark.parametrize("size", [3, 4, 8])
def test_padding_changes_no_logits(size: int) -> None:
    answers = []
    for padded in (False, True):
        model = model_on_cpu()
        model.forward(PROMPTS)
        for flat in (DECODES, NEXT_DECODES):
            static = dummy_batch([1] * size, 5, 4, CPU)
            fill(static, flat)
            answers.append(model.forward(static)[: len(flat.query_lens)] if padded else model.forward(flat))
    for plain, padded_logits in zip(answers[:2], answers[2:], strict=True):
        torch.testing.assert_close(padded_logits, plain, rtol=1e-5, atol=1e-5)


def test_a_model_that_cannot_be_recorded_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(
        GraphedModel, "_record", raises(RuntimeError("operation not permitted when stream is capturing"))
    )
    with pytest.raises(ValueError, match=r"\(operation not permitted .*\): set enforce_eager=True to run without them"):
        with_graphs(model_on_cpu(), 4, 5)


def test_decode_steps_are_played_from_graphs_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses a recorder that computes on replay, which behaves like a graph except for the launch times."""
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(GraphedModel, "_record", record_on_cpu)
    plain, graphed = model_on_cpu(), with_graphs(model_on_cpu(), 300, 5)
    for flat in (PROMPTS, DECODES, NEXT_DECODES):
        torch.testing.assert_close(graphed.forward(flat), plain.forward(flat), rtol=1e-5, atol=1e-5)
    assert dict(graphed.replays) == {0: 1, 4: 1, 2: 1}
    assert list(graphed.steps)[:2] == [256, 248]
    assert len(graphed.steps) == 35
