"""The JavaScript model under the engine: the tokens of torch in float32, and errors for unsupported features."""

import shutil
import subprocess
from array import array
from pathlib import Path
from typing import Any

import pytest

import mini_vllm.assembly.build as building
from mini_vllm import SamplingParams
from mini_vllm.assembly.open_runner import OpenedRunner
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.tab.bpe_tokenizer import BPETokenizer
from mini_vllm.runner.tab.javascript_runner import PROGRAM, JavaScriptRunner, step_arrays
from mini_vllm.runner.tab.pyodide_model import EMBEDDED
from tests.tab.chats import answers
from tests.tab.node_model import BRIDGE, NodeModel, node, node_model


@pytest.fixture(scope="module")
def native() -> dict[str, Any]:
    return answers("solution:1-6")


@pytest.mark.parametrize("options", [(), ("plain",)], ids=["four lanes", "no SIMD"])
def test_twenty_chats_have_the_tokens_of_torch(
    native: dict[str, Any], options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with node_model(*options) as model:
        monkeypatch.setattr(building, "open_runner", lambda *given, **more: opened(model))
        ours = answers("solution:1-5")
    assert ours == native
    assert native["preemptions"] > 2
    assert native["hits"] > 8
    assert native["chunks"] > 2
    assert native["largest"] == 8
    assert len({tuple(tokens) for tokens in native["tokens"]}) == 20


def opened(model: NodeModel) -> OpenedRunner:
    def with_cache(num_blocks: int, block_size: int) -> JavaScriptRunner:
        return JavaScriptRunner(model, num_blocks, block_size, to_js=lambda numbers: numbers)

    def no_draft_model(num_blocks: int, block_size: int) -> Any:
        raise AssertionError

    return OpenedRunner(BPETokenizer(EMBEDDED), "embedded", model.maxLen, 1024, with_cache, no_draft_model)


def share(request: Request, num_computed: int, num: int, blocks: list[int], *drafts: int) -> ScheduledRequest:
    return ScheduledRequest(request, num_computed, num, blocks, needs_token=True, draft_token_ids=drafts)


def test_a_steps_arrays() -> None:
    first, second = (
        Request("a", [10, 11, 12, 13, 14]),
        Request("b", [20], SamplingParams(temperature=0.5, top_k=3, seed=1)),
    )
    batch = [share(first, 3, 2, [7, 2, 9]), share(second, 0, 3, [5, 6], 21, 22)]
    batch[0].needs_token = False
    rows = [(batch[1], k) for k in range(3)]
    *whole, sampling = step_arrays(batch, rows, 2)
    assert [list(numbers) for numbers in whole] == [
        [13, 14, 20, 21, 22], [3, 4, 0, 1, 2], [5, 18, 10, 11, 12], [0, 2, 5], [7, 2, 9, 5, 6, 0], [2, 3, 4],
    ]  # fmt: skip
    assert [list(sampling[at : at + 3]) for at in (0, 4, 8)] == [[0.5, 3, 1]] * 3
    assert len({*sampling[3::4]}) == 3  # a separate draw for each position
    with pytest.raises(
        RuntimeError, match=r"token 4 of a needs block 3 of its table, which has only 2 blocks of 2 tokens"
    ):
        step_arrays([share(first, 3, 2, [7, 2])], [], 2)


class Recorded:
    vocab, maxLen = 9, 99  # noqa: N815

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens

    def allocate(self, num_blocks: int, block_size: int) -> None: ...
    def executeModel(self, *arrays: Any) -> Any:  # noqa: N802
        return array("i", self.tokens)


def test_what_is_not_computed_ends_in_words_and_the_others_go_on() -> None:
    asked = [SamplingParams(), SamplingParams(logprobs=1), SamplingParams(presence_penalty=1.0), SamplingParams()]
    batch = [share(Request(name, [1], params), 0, 1, [1]) for name, params in zip("abcd", asked, strict=True)]
    output = JavaScriptRunner(Recorded([4, 5, 6, -1]), 8, 4, to_js=list).execute_model(batch)
    assert output.sampled_token_ids == {"a": [4]}
    words = "the model in the browser does not compute {}: use the local installation"
    assert output.errors == {
        "b": words.format("logprobs"),
        "c": words.format("penalties, logit_bias and min_tokens"),
        "d": "the model returned logits that are not finite",
    }


def test_drafts_count_as_far_as_phase_7_accepts_them() -> None:
    runner = JavaScriptRunner(
        Recorded([21, 9, 8]), 8, 4, list, accept_drafts=lambda drafts, sampled: sampled[: len(drafts)]
    )
    assert runner.execute_model([share(Request("a", [20]), 0, 3, [1], 21, 22)]).sampled_token_ids == {"a": [21, 9]}


@pytest.mark.parametrize(("kept", "words"), [(4, "has 4 bytes and is not complete"), (900_000, "and is cut off")])
def test_a_model_file_that_is_cut_off_is_named(tmp_path: Path, kept: int, words: str) -> None:
    shutil.copy(EMBEDDED / "config.json", tmp_path)
    (tmp_path / "model.safetensors").write_bytes((EMBEDDED / "model.safetensors").read_bytes()[:kept])
    command = [node(), str(BRIDGE), str(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode
    assert words in done.stderr
