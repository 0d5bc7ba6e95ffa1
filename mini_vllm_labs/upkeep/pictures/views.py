"""Makes the pictures of the views."""

from collections.abc import Callable
from typing import Any

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.request import MultiModalFeatureSpec
from mini_vllm.sampling_params import StructuredOutputsParams
from mini_vllm_labs.fresh.jobs import play_workload
from mini_vllm_labs.notebook.electives import encode_images, hold_blocks
from mini_vllm_labs.pictures.automaton import automaton
from mini_vllm_labs.pictures.batching import batching
from mini_vllm_labs.pictures.block_life import block_life
from mini_vllm_labs.pictures.calculator import calculator_picture
from mini_vllm_labs.pictures.chunking_dial import Deployment, Setting, chunking_picture, try_setting
from mini_vllm_labs.pictures.drafts import draft_film
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.gates import gates
from mini_vllm_labs.pictures.hash_chain import hash_chain, hits_of
from mini_vllm_labs.pictures.image_chunks import image_chunks
from mini_vllm_labs.pictures.lanes import lanes
from mini_vllm_labs.pictures.paged_batch import paged_batch
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.policy_comparison import PolicyComparison, compare_policies, policy_picture
from mini_vllm_labs.pictures.time_machine import time_machine
from mini_vllm_labs.pictures.transfers import TransferStep, transfers
from mini_vllm_labs.pictures.windows import windows
from mini_vllm_labs.runs.parity.replay import ScenarioReplay
from mini_vllm_labs.runs.parity.scenario import Scenario
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.workloads.two_gates import TWO_GATES, two_gates
from mini_vllm_labs.simulation.served import Slo
from solutions import phase4_prefix_cache, phase6_gpu_runner

RECORDED = CHECKOUT / "labs" / "observed" / "all_phases.jsonl"


def at_preemption(view: Callable[[Recording], Film]) -> Picture:
    """Return a view of the recorded run's first step in which a request is preempted."""
    recording = Recording.read(RECORDED)
    step = next(record["step"] for record in recording.steps if record["preempted"])
    return view(recording)[step]


def three_chains() -> Picture:
    """Draw three chains: a prompt, one that diverges in its third block, and the first prompt with a salt."""
    prompt = [*range(10, 18), 21, 22, 23, 24, 31, 32]
    prompts = {"A": prompt, "B": [*prompt[:10], 99, *prompt[11:], 33, 34, 35], "C": prompt}
    salts = {"C": "blue"}
    hits = hits_of(prompts, phase4_prefix_cache.HashPrefixCache(4), 4, salts)
    return hash_chain(prompts, 4, phase4_prefix_cache.hash_block, salts=salts, hits=hits)


def smaller_budget() -> Picture:
    deployment = Deployment()
    before, now = (try_setting(Setting(max_num_batched_tokens=budget), deployment) for budget in (2048, 512))
    return chunking_picture(now, before)


def two_chats(lineup: str, config: EngineConfig) -> LLM:
    """Return an engine that has answered two chats with the embedded model and recorded its steps."""
    questions = "Repeat these words:\nlamp, cup, dog, tree.", "Tell me a story about Mina and a kite."
    llm = LLM(config=config, lineup=parse_lineup(lineup), record=True)
    llm.chat([[{"role": "user", "content": text}] for text in questions], SamplingParams(max_tokens=16))
    return llm


def kept_and_rejected_drafts() -> Picture:
    drafts = SpeculativeConfig("ngram", num_speculative_tokens=4, adaptive=False)
    llm = two_chats("solution:1-7", EngineConfig(num_gpu_blocks=24, block_size=8, speculative_config=drafts))
    recording = Recording.of(llm)
    ids = {token for record in recording.steps for tokens in record["sampled"].values() for token in tokens}
    ids |= {token for record in recording.steps for one in record["scheduled"] for token in one.get("drafts", [])}
    film = draft_film(recording, texts={token: llm.engine.tokenizer.decode([token]) for token in ids})
    return film.still(film.first)


def in_turn_and_ahead() -> Picture:
    in_turn, ahead = (
        two_chats("solution:1-6,solution:8", EngineConfig(num_gpu_blocks=24, async_scheduling=is_ahead))
        for is_ahead in (False, True)
    )
    return lanes({"in turn": Recording.of(in_turn), "ahead": Recording.of(ahead)})


def the_next_digit() -> Picture:
    """Draw the DFA for a number with at most two decimal places, in its state after the first digit."""
    regex, engine = r"-?\d+(\.\d\d?)?", LLM(lineup=parse_lineup("solution:1-9")).engine
    assert engine.grammars is not None
    grammar: Any = engine.grammars.grammar_init(StructuredOutputsParams(regex=regex)).result()
    grammar.accept_tokens("7", engine.tokenizer.encode("7"))
    allowed = [
        engine.tokenizer.decode([token]) or "end of text" for token in grammar.masks.next_states(grammar.states[-1])
    ]
    return automaton(regex, grammar.masks.dfa, grammar.states[-1], allowed, engine.runner.vocab_size)


def two_images() -> Picture:
    """Draw the two steps of a prompt whose images do not fit into one step."""
    images = [MultiModalFeatureSpec("cat", 3, 6), MultiModalFeatureSpec("dog", 12, 6)]
    return image_chunks(20, images, encode_images(20, images, 8, parse_lineup("solution:1-5,solution:11")), 8)


def a_long_text() -> Picture:
    """Draw the block tables of 480 tokens with a sliding window of 64, and the blocks held over time."""
    kept, windowed = (hold_blocks(480, window, 60, parse_lineup("solution:1-5,solution:12")) for window in (480, 64))
    curves = {"if all are kept": kept.held, "with a window": windowed.held}
    return windows("Full and sliding layers over one pool", windowed.tables, curves)


def past_a_load() -> Picture:
    """Draw a run in which A ends and is sent, B loads stored blocks, and C is admitted before B."""
    common = {"priority": 0, "arrival_time": 0.0, "ignore_eos": True, "stop_token_ids": [], "planned": []}
    lengths = {"A": (6, 2, {"send": True, "send_steps": 2}), "B": (14, 2, {"stored": 12, "load_steps": 2})}
    lengths |= {"C": (9, 7, {})}
    requests = {
        name: {"prompt": [{"seed": name, "len": length}], "max_tokens": most, **common, **more}
        for name, (length, most, more) in lengths.items()
    }
    settings = {"max_num_seqs": 4, "max_num_batched_tokens": 16, "block_size": 4, "num_gpu_blocks": 11}
    config = {**settings, "max_model_len": 40, "eos_token_id": 2, "spec": None, "connector": {"async": True}}
    events = [{"step": 0, "add": name} for name in requests]
    line = {"name": "past a load", "config": config, "requests": requests, "events": events, "trace": {"steps": []}}
    replay = ScenarioReplay(Scenario(line), parse_lineup("solution:1-5"))
    steps = list[TransferStep]()
    for number in range(5):
        replay.run_step(number)
        steps.append(TransferStep.of(replay.scheduler, replay.requests.values()))
    return transfers(steps, 10)


def compute_then_memory() -> Film:
    """Return the film for phase 5's handout, in which the limit is first compute and then memory."""
    return gates(play_workload(two_gates(), TWO_GATES, parse_lineup("solution:1-5")).recording)


def policies() -> Picture:
    comparison = PolicyComparison()
    return policy_picture(comparison, compare_policies(comparison, parse_lineup("solution")), Slo())


VIEWS: dict[str, Callable[[], Picture]] = {
    "batching": batching,
    "time_machine": lambda: at_preemption(time_machine),
    "block_life": lambda: at_preemption(block_life),
    "hash_chain": three_chains,
    # The decode step for the handout's batch, which reads all 7 of B's tokens from two blocks.
    "paged_batch": lambda: paged_batch(functions=phase6_gpu_runner)[4],
    "chunking_dial": smaller_budget,
    "gates": lambda: compute_then_memory().still(45),
    "calculator": calculator_picture,
    "policy_comparison": policies,
    "automaton": the_next_digit,
    "image_chunks": two_images,
    "windows": a_long_text,
    "transfers": past_a_load,
    "drafts": kept_and_rejected_drafts,
    "lanes": in_turn_and_ahead,
}
