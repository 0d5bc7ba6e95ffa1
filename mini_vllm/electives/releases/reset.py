"""Functions of releases after 0.13.0 that are called between steps: they pause the scheduler or empty the prefix
cache."""

from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import Preempted
from mini_vllm.electives.releases.around_phases import forget_in_flight
from mini_vllm.electives.releases.step_state import PauseState, StepState


def set_pause_state(scheduler: Scheduler, pause_state: PauseState) -> None:
    """Set what the following steps may plan: everything, no admissions of requests without blocks, or nothing at all.

    Raises `ValueError` under the rules of 0.13.0.
    """
    _step_of(scheduler).pause_state = pause_state


def reset_prefix_cache(scheduler: Scheduler, *, reset_running_requests: bool = False) -> bool:
    """Empty the prefix cache and return True. If any request holds a block, return False and change nothing.

    `reset_running_requests` first preempts all running requests, starting with the last. The preempted requests' tokens
    in flight are dropped and sampled again. With this option, raises `ValueError` under the rules of 0.13.0, and while
    a request is still loading or sending K and V.
    """
    kv = scheduler.kv
    if reset_running_requests:
        _preempt_all(scheduler)
    is_idle = kv.num_free_blocks == kv.num_usable_blocks
    if reset_running_requests and not is_idle:
        raise ValueError("reset_running_requests works only while no request is loading or sending K and V")
    for block_id in scheduler.prefix_cache.cached_blocks() if is_idle else ():
        scheduler.prefix_cache.evict(block_id)
    return is_idle


def _preempt_all(scheduler: Scheduler) -> None:
    step, kv = _step_of(scheduler), scheduler.kv
    while scheduler.running:
        request = scheduler.running.pop()
        kv.free(request, request.num_computed_tokens)
        request.preempt()
        forget_in_flight(request)
        scheduler.waiting.prepend_request(request)
        step.dropped[request.request_id] = request.num_preemptions
        step.reset.append(Preempted(request.request_id, "", 0))


def _step_of(scheduler: Scheduler) -> StepState:
    if not isinstance(scheduler.release, StepState):
        raise ValueError("pausing and resetting need a release later than vLLM 0.13.0, such as vllm='0.33.0'")
    return scheduler.release
