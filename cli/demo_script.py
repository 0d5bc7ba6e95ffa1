"""The prompts of the demo, and a pool that is deliberately too small for them."""

from dataclasses import dataclass, replace

from course.terminal.options import remark_on_phase_6
from course.workloads.fallbacks import make_possible
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Message

NOTES = """You answer questions about the notes.
Notes:
Ivan is a doctor.
Eva likes rice.
Leo has a yellow basket.
Umar lives in Lima.
Clara has a blue pen.
Simon comes on Friday.
Ivy comes on Tuesday.
Ivy likes carrot.
Quinn is a pilot.
The room of Mina is number 99.
Maya lives in Lima.
Tom comes on Monday."""

# A comes first, so its blocks of the notes are in the cache when the other requests arrive.
QUESTIONS = (
    ("notes", "Where does Umar live?"),
    ("", "Tell me a story about Mina and a kite."),
    ("", "Tell me a story about Tom and a boat."),
    ("notes", "What does Leo have?"),
    ("", "Tell me a story about Nora and a drum."),
    ("notes", "Which room does Mina have?"),
    ("", "Tell me a story about Leo and a lamp."),
    ("notes", "When does Simon come?"),
)
MAX_TOKENS = 120

SMALL_POOL = EngineConfig(
    max_num_seqs=5,
    max_num_batched_tokens=48,
    long_prefill_token_threshold=32,
    max_model_len=288,
    block_size=16,
    num_gpu_blocks=19,
)


@dataclass(frozen=True)
class DemoPlan:
    """The conversations of the demo with their titles, the settings, and remarks on settings that were changed."""

    titles: list[str]
    conversations: list[list[Message]]
    config: EngineConfig
    max_tokens: int
    remarks: list[str]


def plan_demo(lineup: Lineup, *, dense: bool = False) -> DemoPlan:
    """Return the demo for a lineup, with settings adjusted to absent phases; `dense` as in `LLM`."""
    config, remarks = SMALL_POOL, []
    if lineup.runner == "absent" and not dense:
        # The fake model's tokens are bytes: about four times as many.
        config = replace(
            config, max_num_batched_tokens=192, long_prefill_token_threshold=128, max_model_len=1024, num_gpu_blocks=57
        )
    if remark := remark_on_phase_6(lineup, dense=dense):
        remarks.append(remark)
    config, more = make_possible(config, lineup)
    return DemoPlan(
        titles=[f"{kind}: {question}" if kind else question for kind, question in QUESTIONS],
        conversations=[conversation(kind, question) for kind, question in QUESTIONS],
        config=replace(config, check_invariants=True),
        max_tokens=MAX_TOKENS,
        remarks=[*more, *remarks],
    )


def conversation(kind: str, question: str) -> list[Message]:
    """Return one question as a chat, with the notes in its system prompt if it is about them."""
    message: Message = {"role": "user", "content": question}
    return [{"role": "system", "content": NOTES}, message] if kind == "notes" else [message]
