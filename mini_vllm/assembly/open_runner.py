"""Builds a lineup's runner: phase 6 on a model or a fallback, wrapped in a drafter if configured."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mini_vllm.assembly.elective_parts import Electives
from mini_vllm.assembly.parts import runner_steps_on
from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.tokenizer import ByteTokenizer, Tokenizer
from mini_vllm.electives.gates.connector import BlockStore
from mini_vllm.electives.speculation import SpeculationFunctions
from mini_vllm.runner.drafts.draft_model import DraftModel
from mini_vllm.runner.drafts.drafting_runner import DraftingRunner
from mini_vllm.runner.drafts.proposer import PromptLookup, Proposer
from mini_vllm.runner.fake_model_runner import LETTERS, FakeModelRunner

FAKE_MODEL_LEN = 2048
NUM_BLOCKS_WITHOUT_CACHE = 1024


@dataclass(frozen=True, slots=True)
class OpenedRunner:
    """A runner whose KV cache does not exist yet, because its size depends on the whole engine.

    `num_gpu_blocks` is the number of blocks that fit in memory, including the null block. `with_cache(num_blocks,
    block_size)` returns the runner, and `draft_model_with_cache(num_blocks, block_size)` returns the configured draft
    model. `disk_store(path, max_bytes, block_size)` returns the model's blocks on disk, `block_like(block_size)`
    returns an empty block, and `kv_caches(runner)` returns the tensors that hold the runner's blocks. `model_id`
    identifies the model. `windows` has one entry per group of layers: the number of tokens that its attention can
    reach, or None for all tokens. `repetition_penalty` is the default for requests.
    """

    tokenizer: Tokenizer
    model_id: str
    max_model_len: int
    num_gpu_blocks: int
    with_cache: Callable[[int, int], ModelRunner]
    draft_model_with_cache: Callable[[int, int], DraftModel]
    disk_store: Callable[[str, int, int], BlockStore] | None = None
    block_like: Callable[[int], Any] | None = None
    kv_caches: Callable[[Any], Sequence[Any]] | None = None
    windows: tuple[int | None, ...] = (None,)
    repetition_penalty: float = 1.0


def open_runner(
    electives: Electives, model: str | None, *, dense: bool, adapters: Mapping[str, str] | None = None
) -> OpenedRunner:
    """Open phase 6 on `model`. Without phase 6, open the fake model, or, with `dense`, a plain forward pass of `model`.

    In a browser `dense` runs the embedded model with its KV cache in JavaScript. `adapters` maps names to directories.
    Imports torch, except for the fake model and in a browser. Raises `ValueError` if the model or an adapter cannot be
    found, or if the engine cannot serve it.
    """
    config, speculation = electives.config, electives.speculation
    if electives.lineup.runner != "absent":
        return _paged(electives, model, adapters or {})
    if adapters:
        raise ValueError("adapters need phase 6 (GPU runner), because they change the layers of a real model")
    if config.quantization is not None:
        raise ValueError("quantization='int8' needs phase 6 (GPU runner), which packs the weights of a real model")
    if config.speculative_config is not None and config.speculative_config.draws_drafts:
        raise ValueError("draft_sample_method must be 'greedy' while phase 6 (GPU runner) is absent")
    if dense and sys.platform == "emscripten":
        return _in_tab(speculation)
    return _dense(config, model) if dense else _fake(speculation)


def _fake(speculation: SpeculationFunctions | None) -> OpenedRunner:
    from mini_vllm.runner.kv_transfer.fake_blocks import fake_block_like, fake_disk_store, fake_kv_caches

    accept_drafts = None if speculation is None else speculation.accept_drafts
    return OpenedRunner(
        ByteTokenizer(),
        "fake",
        FAKE_MODEL_LEN,
        NUM_BLOCKS_WITHOUT_CACHE,
        lambda num_blocks, block_size: FakeModelRunner(num_blocks, block_size, LETTERS, accept_drafts),
        lambda num_blocks, block_size: DraftModel(FakeModelRunner(num_blocks, block_size, LETTERS), block_size),
        fake_disk_store,
        fake_block_like,
        fake_kv_caches,
    )


def _in_tab(speculation: SpeculationFunctions | None) -> OpenedRunner:
    from pyodide.ffi import to_js

    from mini_vllm.runner.tab.bpe_tokenizer import BPETokenizer
    from mini_vllm.runner.tab.javascript_runner import JavaScriptRunner
    from mini_vllm.runner.tab.pyodide_model import EMBEDDED, open_model

    model, accept_drafts = open_model(), None if speculation is None else speculation.accept_drafts
    return OpenedRunner(
        BPETokenizer(EMBEDDED),
        "embedded",
        model.maxLen,
        NUM_BLOCKS_WITHOUT_CACHE,
        lambda num_blocks, block_size: JavaScriptRunner(model, num_blocks, block_size, to_js, accept_drafts),
        _no_draft_model,
    )


def _no_draft_model(num_blocks: int, block_size: int) -> DraftModel:
    raise ValueError("a browser cannot run a draft model: use method='ngram'")


def _dense(config: EngineConfig, model: str | None) -> OpenedRunner:
    from mini_vllm.runner.dense_runner import DenseModelRunner
    from mini_vllm.runner.loading import load_draft_model, load_model
    from mini_vllm.runner.model_limits import served_length

    def draft_model_with_cache(num_blocks: int, block_size: int) -> DraftModel:
        draft_model = load_draft_model(config)
        return DraftModel(DenseModelRunner(draft_model), block_size, draft_model.max_model_len)

    loaded, tokenizer = load_model(model, config.dtype, prepack_weights=config.prepack_weights)
    return OpenedRunner(
        tokenizer,
        loaded.digest,
        served_length(loaded.model.config, config.max_model_len),
        NUM_BLOCKS_WITHOUT_CACHE,
        lambda num_blocks, block_size: DenseModelRunner(loaded),
        draft_model_with_cache,
        windows=loaded.groups.windows,
        repetition_penalty=loaded.repetition_penalty,
    )


def _paged(electives: Electives, model: str | None, adapters: Mapping[str, str]) -> OpenedRunner:
    from mini_vllm.runner.adapters import digest_of, load_adapter, with_adapters
    from mini_vllm.runner.drafts.random_drafts import RandomDraftModel, RandomDraftRunner
    from mini_vllm.runner.loading import pick_device
    from mini_vllm.runner.opening import OpenedModel
    from mini_vllm.runner.paged_model_runner import PagedModelRunner

    config, speculation = electives.config, electives.speculation
    if adapters:
        config = replace(config, enforce_eager=True)  # a recorded graph cannot apply adapters
    loaded = [load_adapter(name, path) for name, path in adapters.items()]
    admission, structured = electives.admission, electives.structured_output
    steps = replace(runner_steps_on(electives.lineup.runner, pick_device().type), windows=electives.windows)
    opened = OpenedModel(model, config, steps)
    if speculation is not None:
        steps = replace(steps, select_logits_rows=speculation.select_logits_rows)

    def draft_model_with_cache(num_blocks: int, block_size: int) -> DraftModel:
        assert opened.draft_model is not None
        draft_model, longest = opened.draft_model_with_cache(num_blocks, block_size), opened.draft_model.max_model_len
        if config.speculative_config is not None and config.speculative_config.draws_drafts:
            return RandomDraftModel(RandomDraftRunner(draft_model, opened.steps), block_size, longest)
        return DraftModel(PagedModelRunner(draft_model, opened.steps), block_size, longest)

    def with_cache(num_blocks: int, block_size: int) -> PagedModelRunner:
        paged = opened.with_cache(num_blocks, block_size)
        step_adapters = with_adapters(paged, loaded, admission.bgmv) if loaded and admission else None
        threads = opened.threads(paged, has_adapters=step_adapters is not None)
        return PagedModelRunner(paged, steps, speculation, structured, step_adapters, threads)

    return OpenedRunner(
        opened.tokenizer,
        opened.loaded.digest,
        opened.max_model_len,
        opened.num_gpu_blocks,
        with_cache,
        draft_model_with_cache,
        disk_store=partial(opened.disk_store, adapters=digest_of(loaded)),
        block_like=opened.block_like,
        kv_caches=lambda runner: runner.model.kv_caches,
        windows=opened.loaded.groups.windows,
        repetition_penalty=opened.loaded.repetition_penalty,
    )


def with_drafts(
    runner: ModelRunner,
    opened: OpenedRunner,
    config: EngineConfig,
    functions: SpeculationFunctions,
    num_blocks: int,
    block_size: int,
) -> DraftingRunner:
    """Wrap `runner` in the config's drafter. A draft model gets a cache of `num_blocks` blocks.

    The config must be resolved. Raises `ValueError` if no runner supports the drafter, the draft model is missing, or
    its vocabulary size differs.
    """
    speculative_config, (max_model_len, _) = config.speculative_config, config.sizes
    assert speculative_config is not None
    if speculative_config.prefill_lookahead:
        raise ValueError(
            f"method must be ngram or draft_model, because no runner supports {speculative_config.method!r}"
        )
    proposer: Proposer = PromptLookup(speculative_config, functions.propose_by_lookup)
    if speculative_config.drafter_has_kv_cache:
        proposer = opened.draft_model_with_cache(num_blocks, block_size)
        if proposer.runner.vocab_size != runner.vocab_size:
            raise ValueError(
                f"the draft model must have the target's vocabulary of {runner.vocab_size} tokens, but "
                f"{speculative_config.model!r} has {proposer.runner.vocab_size}"
            )
    return DraftingRunner(runner, proposer, speculative_config, max_model_len)
