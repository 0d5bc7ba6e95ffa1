"""Runs phases 9 to 12 in the situations of their notebooks, and draws what each phase adds to the engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mini_vllm import LLM, EngineConfig, Lineup, SamplingParams
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.config import KVTransferConfig
from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.request import MultiModalFeatureSpec as Image
from mini_vllm.core.request import Request
from mini_vllm.electives.automaton import START, Dfa, build_nfa
from mini_vllm.electives.gates.gated import encoder_of
from mini_vllm.electives.regex import parse_regex
from mini_vllm.sampling_params import StructuredOutputsParams
from mini_vllm_labs.fresh.jobs import WorkloadRun, play_workload
from mini_vllm_labs.notebook.charts import Measure, count
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.pictures.automaton import MAX_STATES, automaton
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.image_chunks import ImageStep
from mini_vllm_labs.pictures.parts import WIDTHS
from mini_vllm_labs.pictures.picture import WIDTH, Picture
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.widgets import Player


@dataclass(frozen=True)
class MaskedText:
    """A text generated under a regex: the DFA, and one step per token.

    A step contains the token, the state before it, and the allowed tokens.
    """

    regex: str
    transitions: list[dict[int, int]]
    accepting: Sequence[int]
    vocab_size: int
    steps: Sequence[tuple[str, int, Sequence[str]]]

    @property
    def text(self) -> str:
        return "".join(token for token, *_ in self.steps[:-1]).strip()

    @property
    def num_forced(self) -> int:
        """The number of steps in which only one token is allowed."""
        return sum(len(allowed) == 1 for *_, allowed in self.steps)


MASKED: list[Measure[MaskedText]] = [
    Measure("steps", lambda text: len(text.steps), count),
    Measure("tokens that may come first", lambda text: len(text.steps[0][2]), count),
    Measure("steps with one allowed token", lambda text: text.num_forced, count),
]


def write_masked(question: str, regexes: Sequence[str], config: EngineConfig, lineup: Lineup) -> list[MaskedText]:
    """Answer a question under each regex with the embedded model, using phase 9's automata, masks and grammars."""
    llm, texts = LLM(config=config, lineup=lineup), list[MaskedText]()
    manager, tokenizer = llm.engine.grammars, llm.engine.tokenizer
    assert manager is not None
    controls = {token_id: name for name, token_id in tokenizer.control_tokens.items()}
    for regex in regexes:
        params = SamplingParams(24, structured_outputs=StructuredOutputsParams(regex=regex))
        [output] = llm.chat([[{"role": "user", "content": question}]], params)
        dfa = manager.functions.build_dfa(build_nfa(parse_regex(regex)), manager.vocabulary.alphabet)
        masks = manager.functions.make_masks(dfa, manager.vocabulary.trie, manager.vocab_size, manager.eos_token_ids)
        state, steps = START, list[tuple[str, int, Sequence[str]]]()
        for token_id in output.outputs[0].token_ids:
            found = masks.next_states(state)
            names = {one: controls.get(one) or tokenizer.decode([one]) for one in found}
            steps.append((names[token_id], state, list(names.values())))
            state = found[token_id]
        texts.append(MaskedText(regex, dfa.transitions, sorted(dfa.accepting), manager.vocab_size, steps))
    return texts


def watch_masks(text: MaskedText) -> "Player | Notice":
    """Show the DFA before each token of a text, with the tokens that the mask leaves."""
    if len(text.transitions) > MAX_STATES:
        return Notice("This DFA is too large to draw", f"It has {len(text.transitions)} states, over {MAX_STATES}.")
    dfa, drawn = Dfa(text.transitions, frozenset(text.accepting)), dict[float, list[Picture]]()
    for width in (WIDTHS[0], WIDTH):
        drawn[width] = [
            automaton(text.regex, dfa, state, allowed, text.vocab_size, token, width)
            for token, state, allowed in text.steps
        ]
    return player(Film.of(drawn))


def play_in_turn(
    workloads: Sequence[Sequence[TimedRequest]], config: EngineConfig, lineup: Lineup
) -> list[WorkloadRun]:
    """Run each workload in a new engine; all the engines share one folder of stored blocks."""
    with TemporaryDirectory() as folder:
        disk = replace(config, kv_transfer_config=KVTransferConfig("disk", shared_storage_path=folder))
        return [play_workload(workload, disk, lineup) for workload in workloads]


def encode_images(num_tokens: int, images: Sequence[Image], budget: int, lineup: Lineup) -> list[ImageStep]:
    """Compute a prompt with images on the fake model. A step encodes up to `budget` embeddings, and the cache holds the
    same number."""
    config = EngineConfig(num_gpu_blocks=40, max_num_encoder_input_tokens=budget, encoder_cache_size=budget)
    engine, steps = build_engine(config, lineup, record=True), list[ImageStep]()
    engine.add_request("A", [7] * num_tokens, SamplingParams(2), mm_features=images)
    gate = encoder_of(engine.scheduler)
    assert gate is not None
    while not steps or steps[-1].end < num_tokens:
        engine.step()
        encoded = [images[index].identifier for index in gate.scheduled.get("A", ())]
        for share in engine.recorder.steps[-1]["scheduled"]:
            steps.append(ImageStep(share["computed"], share["n"], encoded, gate.take_freed(), list(gate.cache.cached)))
    return steps


@dataclass(frozen=True)
class HeldBlocks:
    """The final block table of each group of layers, and the number of blocks held after each token."""

    tables: Mapping[str, Sequence[int]]
    held: Sequence[int]

    def num_held(self, group: int) -> int:
        return sum(block != NULL_BLOCK_ID for block in list(self.tables.values())[group])


HOLDING: list[Measure[HeldBlocks]] = [
    Measure("tokens", lambda text: len(text.held), count),
    Measure("blocks held", lambda text: text.held[-1], count),
]


def hold_blocks(num_tokens: int, window: int, num_blocks: int, lineup: Lineup) -> HeldBlocks:
    """Allocate slots token by token, for full and sliding layers, until the text ends or the pool is full."""
    config = EngineConfig(num_gpu_blocks=num_blocks + 1, max_model_len=num_tokens).resolved(num_tokens, num_blocks + 1)
    scheduler, held = build_scheduler(config, lineup, windows=(None, window)), list[int]()
    request = Request("A", [5] * num_tokens, SamplingParams())
    while request.num_computed_tokens < num_tokens and scheduler.kv.allocate_slots(request, 1) is not None:
        request.num_computed_tokens += 1
        held.append(scheduler.kv.num_usable_blocks - scheduler.kv.num_free_blocks)
    tables = [list(table) for table in scheduler.block_tables("A")]
    return HeldBlocks(dict(zip(("full attention", f"window of {window}"), tables, strict=True)), held)
