"""Random sampling depends on the request's seed and nothing else."""

from functools import cache

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup

PROMPTS = ["One day, a", "Mina had a", "Once upon a time", "The capital of"]
CREATIVE = SamplingParams(max_tokens=20, temperature=1.0, top_p=0.95, top_k=50, seed=11, ignore_eos=True)


@cache
def roomy() -> LLM:
    return LLM(config=EngineConfig(num_gpu_blocks=64), lineup=parse_lineup("solution"))


def texts(llm: LLM, prompts: list[str], params: SamplingParams) -> list[str]:
    return [output.outputs[0].text for output in llm.generate(prompts, params)]


def test_a_seed_gives_the_same_text_alone_and_in_a_batch() -> None:
    together = texts(roomy(), PROMPTS, CREATIVE)
    alone = [texts(roomy(), [prompt], CREATIVE)[0] for prompt in PROMPTS]
    assert together == alone
    assert together != texts(roomy(), PROMPTS, SamplingParams(max_tokens=20, ignore_eos=True))


def test_a_seed_gives_the_same_text_under_preemption_and_chunking() -> None:
    config = EngineConfig(num_gpu_blocks=16, block_size=4, max_num_batched_tokens=8, max_model_len=60)
    tight = LLM(config=config, lineup=parse_lineup("solution"))
    outputs = tight.generate(PROMPTS, CREATIVE)
    assert sum(output.metrics.num_preemptions for output in outputs) > 0
    assert [output.outputs[0].text for output in outputs] == texts(roomy(), PROMPTS, CREATIVE)


def test_without_a_seed_two_requests_differ() -> None:
    params = SamplingParams(max_tokens=30, temperature=1.5, ignore_eos=True)
    first, second = texts(roomy(), [PROMPTS[0]] * 2, params)
    assert first != second
