"""Phase 1: one step of the scheduler. You write all three functions.

A request has `num_tokens - num_computed_tokens` tokens left to compute. `kv`, `preemption` and `chunks` are given
here; you will write them in phases 2, 3 and 5. The handout has the rules; `mini-vllm hint 1.1` prints a hint.
"""

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.stopping import check_stop


def clamp(num_new: int, budget: int, threshold: int) -> int:
    """Return how many of `num_new` tokens one request may compute in this step.

    The result is at most `threshold` (0 means no limit), at most what is left of `budget`, and never below 0.
    """
    raise NotImplementedError("Phase 1, task 1: clamp")


def schedule_step(
    running: list[Request],
    waiting: RequestQueue,
    *,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    kv: KVCacheManager,
    preemption: Preemption,
    chunks: ChunkPolicy,
) -> SchedulerOutput:
    """Plan one step: schedule the running requests in order, then admit waiting ones.

    Admitted requests move from `waiting` to `running`. Admission sets a request's `num_computed_tokens` to its
    prefix hit; otherwise the counter is left alone.
    """
    # Task 1.2 is the RUNNING phase, and task 1.3 is the WAITING phase. A separate helper function for each phase keeps
    # them readable.
    raise NotImplementedError("Phase 1, tasks 2 and 3: schedule_step")


def update_from_output(
    scheduler_output: SchedulerOutput,
    sampled_token_ids: dict[str, list[int]],
    requests: dict[str, Request],
    running: list[Request],
    *,
    max_model_len: int,
    kv: KVCacheManager,
) -> dict[str, list[int]]:
    """Append the sampled tokens, finish the requests that stop, and free their blocks.

    Handles the requests in the order of the plan and skips those that are no longer in `requests`. Returns the tokens
    that were kept, keyed by request id; none of them comes after a stop.
    """
    raise NotImplementedError("Phase 1, task 4: update_from_output")
