"""What proposes drafts in an engine: a runner around its runner."""

from mini_vllm.assembly.open_runner import WithCache
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.core.electives import SpeculationFunctions
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.runner.drafts.draft_model import DraftModel
from mini_vllm.runner.drafts.drafting_runner import DraftingRunner
from mini_vllm.runner.drafts.proposer import PromptLookup, Proposer


def with_drafts(
    runner: ModelRunner,
    config: EngineConfig,
    functions: SpeculationFunctions,
    draft_model_with_cache: WithCache,
    num_blocks: int,
    block_size: int,
) -> DraftingRunner:
    """Return a runner that proposes drafts as a resolved config says; a draft model gets a cache of that size.

    Raises `ValueError` if the draft model cannot be found, or if its vocabulary is not the runner's.
    """
    speculative_config, max_model_len = config.speculative_config, config.max_model_len
    assert speculative_config is not None
    assert max_model_len is not None
    proposer: Proposer = PromptLookup(speculative_config, functions.propose_by_lookup)
    if speculative_config.drafter_has_kv_cache:
        draft_runner = draft_model_with_cache(num_blocks, block_size)
        if draft_runner.vocab_size != runner.vocab_size:
            raise ValueError(
                f"the draft model must have the target's vocabulary of {runner.vocab_size} tokens, "
                f"got {speculative_config.model!r} with {draft_runner.vocab_size}"
            )
        proposer = draft_model_for(draft_runner, speculative_config, block_size)
    return DraftingRunner(runner, proposer, speculative_config, max_model_len)


def draft_model_for(runner: ModelRunner, config: SpeculativeConfig, block_size: int) -> DraftModel:
    """Return the proposer around a draft model; only the real model can draw its drafts. Raises `ValueError`."""
    if config.draft_sample_method == "greedy":
        return DraftModel(runner, block_size)
    from mini_vllm.runner.drafts.random_drafts import RandomDraftModel, RandomDraftRunner

    if not isinstance(runner, RandomDraftRunner):
        raise ValueError("draft_sample_method must be 'greedy' while phase 6 (GPU runner) is absent")
    return RandomDraftModel(runner, block_size)
