"""The runs that decide the cards about schedules, by the titles of the cards."""

from collections.abc import Sequence
from dataclasses import replace

from course.notebook.claims.claim import ClaimSetup, Decision
from course.notebook.run_facts import RunFacts
from course.workloads.timed_request import TimedRequest
from mini_vllm.config import EngineConfig
from mini_vllm.core.cdiv import cdiv


def request(name: str, prompt: Sequence[int], max_tokens: int, step: int = 0, priority: int = 0) -> TimedRequest:
    """Return a request: the token ids of its prompt, how many tokens it generates, its arrival step."""
    return TimedRequest(step, name, list(prompt), max_tokens, priority)


SETTINGS = EngineConfig(
    max_num_seqs=8, max_num_batched_tokens=64, max_model_len=128, block_size=4, num_gpu_blocks=33, check_invariants=True
)
SMALL = replace(SETTINGS, num_gpu_blocks=13)
BY_PRIORITY = replace(SMALL, policy="priority")
PAIR = [request("A", range(16), 20), request("B", range(100, 116), 20)]
RANKED = [request("A", range(16), 20, priority=5), request("B", range(50, 66), 20, priority=6)]
CROWD = [request(name, range(100 * i, 100 * i + 32), 8) for i, name in enumerate("ABCDE")]
CROWDED = replace(SETTINGS, num_gpu_blocks=22)
HUNDRED = {"100 tokens": ClaimSetup([request("A", [7], 100)], replace(SETTINGS, block_size=16, num_gpu_blocks=12))}
MIXED = [request("A", range(60), 4), request("B", range(100, 104), 4)]
PRESET = replace(SETTINGS, max_num_batched_tokens=16)


def victim(run: RunFacts) -> str:
    """Return the first victim, or that there is none."""
    return run.preempted(run.first_preemption())[0] if run.num_preemptions else "neither"


def takes_what_is_missing(run: RunFacts) -> bool:
    """Return whether each allocation takes the blocks of all tokens so far, less those held already."""
    size = run.recording.info.block_size
    shares = [share for record in run.recording.steps for share in record["scheduled"]]
    return all(len(share["blocks"]) == cdiv(share["computed"] + share["n"], size) for share in shares)


DECISIONS: dict[str, Decision] = {
    "All work is lost": Decision(
        {"the pair": ClaimSetup(PAIR, SMALL)}, lambda run: run.hit_of("B") == 0, lambda run: run.resumed("B")
    ),
    "An urgent arrival preempts": Decision(
        {
            "C is urgent": ClaimSetup(
                [
                    request("A", range(16), 8, priority=5),
                    request("B", range(50, 66), 8, priority=5),
                    request("C", range(90, 106), 4, step=3, priority=0),
                ],
                BY_PRIORITY,
            )
        },
        lambda run: run.num_preemptions > 0,
        lambda run: 3,
    ),
    "Equals are safe": Decision(
        {
            "two equals": ClaimSetup(
                [request("A", range(19), 8), request("B", range(100, 116), 8)], replace(SETTINGS, num_gpu_blocks=10)
            )
        },
        victim,
        lambda run: 1,
    ),
    "First to go, first to come back": Decision(
        {"PRIORITY": ClaimSetup([*RANKED, request("C", range(90, 106), 3, step=5, priority=0)], BY_PRIORITY)},
        lambda run: "B" if run.resumed("B") < run.admitted("C") else "C",
        lambda run: run.first_preemption() + 1,
    ),
    "A step with a preemption admits no request": Decision(
        {"a tiny C": ClaimSetup([*RANKED, request("C", range(90, 94), 3, step=9, priority=0)], BY_PRIORITY)},
        lambda run: run.admitted("C") != run.first_preemption(),
        lambda run: run.first_preemption(),
    ),
    "Ten is more than one": Decision(
        {
            "one at a time": ClaimSetup(
                [request("A", range(16), 3, priority=1), request("B", range(50, 66), 3, priority=10)],
                replace(SETTINGS, policy="priority", max_num_seqs=1),
            )
        },
        lambda run: min("AB", key=run.admitted),
    ),
    "Decodes go first": Decision(
        {
            "B decodes": ClaimSetup(
                [request("A", range(40), 2), request("B", range(100, 104), 10), request("C", range(200, 240), 2)],
                replace(SETTINGS, max_num_batched_tokens=12, long_prefill_token_threshold=4),
            )
        },
        lambda run: run.scheduled(1)[0] == "B",
        lambda run: 1,
    ),
    "The queue is long": Decision(
        {
            "budget 64": ClaimSetup(CROWD, CROWDED),
            "budget 128": ClaimSetup(CROWD, replace(CROWDED, max_num_batched_tokens=128)),
        },
        lambda small, large: all(large.admitted(name) >= small.admitted(name) for name in "ABCDE"),
        lambda run: 2,
    ),
    "A hundred tokens, five blocks": Decision(
        HUNDRED, lambda run: len(run.blocks_of("A", run.last_step)), lambda run: run.holds("A", 2)
    ),
    "One call, few blocks": Decision(HUNDRED, takes_what_is_missing, lambda run: run.holds("A", 2)),
    "Fifteen thousand six hundred and twenty-five": Decision(
        {
            "10 requests": ClaimSetup(
                [request(f"r{i}", [i] * 247, 4) for i in range(10)],
                EngineConfig(
                    max_num_seqs=10,
                    max_model_len=256,
                    max_num_batched_tokens=2560,
                    block_size=16,
                    num_gpu_blocks=101,
                    check_invariants=True,
                ),
            )
        },
        lambda run: run.most_at_once,
    ),
    "Shared in the same step": Decision(
        {"together": ClaimSetup([request("A", range(20), 2), request("B", range(20), 2)], SETTINGS)},
        lambda run: run.admitted("B") == 0 and run.hit_of("B") > 0,
    ),
    "A full hit costs one token": Decision(
        {
            "again": ClaimSetup(
                [request("A", range(16), 2), request("B", range(16), 2, step=3), request("C", range(18), 2, step=6)],
                SETTINGS,
            )
        },
        lambda run: run.tokens_of("B", run.admitted("B")) == 1,
        lambda run: run.admitted("B"),
    ),
    "Shared is shared": Decision(
        {
            "18 in common": ClaimSetup(
                [request("A", [*range(18), 1, 2, 3], 2), request("B", [*range(18), 9, 9, 9], 2, step=2)], SETTINGS
            )
        },
        lambda run: run.tokens_of("B", run.admitted("B")),
        lambda run: run.admitted("B"),
    ),
    "The tail goes first": Decision(
        {
            "A, then B, then A's prompt": ClaimSetup(
                [
                    request("A", range(13), 1),
                    request("B", range(100, 105), 1, step=2),
                    request("C", range(13), 1, step=4),
                ],
                replace(SETTINGS, num_gpu_blocks=5),
            )
        },
        lambda run: run.blocks_of("B", 2) == run.blocks_of("A", 0)[:1:-1] and run.hit_of("C") > 0,
        lambda run: 2,
    ),
    "Without a threshold there are no chunks": Decision(
        {"threshold 0": ClaimSetup([request("A", range(40), 2)], replace(SETTINGS, max_num_batched_tokens=12))},
        lambda run: run.tokens_of("A", 0) == 0,
    ),
    "A threshold above the budget": Decision(
        {f"threshold {n}": ClaimSetup(MIXED, replace(PRESET, long_prefill_token_threshold=n)) for n in (64, 0, 8)},
        lambda high, none, low: high.recording.steps == none.recording.steps,
        lambda run: run.first_token("B"),
    ),
    "Settings never change the text": Decision(
        {
            "a large pool": ClaimSetup(PAIR, SETTINGS),
            "a small pool": ClaimSetup(
                PAIR,
                replace(SMALL, max_num_batched_tokens=9, long_prefill_token_threshold=5, enable_prefix_caching=False),
            ),
        },
        lambda roomy, tight: roomy.run.token_ids == tight.run.token_ids,
    ),
}
