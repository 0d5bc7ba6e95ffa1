"""Computes a simulation's result without the engine, for sliders: thousands of requests take milliseconds.

The computation assumes FCFS, enough memory for every request, and no prefix cache, so no request is ever skipped.
Except for the last request admitted, a running request never needs more tokens than in its previous step. All requests
but the last therefore get all their tokens in every step. The decodes therefore advance as one group, and simulating a
step takes the same work for any number of decodes. The results are identical to those of `simulation.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from mini_vllm.config import EngineConfig
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest, require_in_order
from mini_vllm_labs.simulation.cost_model import CostModel, pairs
from mini_vllm_labs.simulation.served import Served


def what_if(requests: Sequence[TimedRequest], config: EngineConfig, cost: CostModel) -> Served:
    """Serve the requests in order of `arrival_time`, and return their times.

    Only `max_num_seqs`, `max_num_batched_tokens`, `long_prefill_token_threshold` and `enable_chunked_prefill` of
    `config` are used. The prefix cache is off and memory is unlimited; the result's `peak_context_tokens` is the
    largest number of tokens whose K and V are held. Raises `ValueError` for a policy other than FCFS, requests out of
    order, or a prompt that can never be admitted.
    """
    if config.policy != "fcfs":
        raise ValueError(f"policy must be 'fcfs' for a what-if, got {config.policy!r}: simulate() supports both")
    return _WhatIf(requests, config, cost).run()


@dataclass(slots=True)
class _Prefill:
    """A running request whose prompt is not yet fully computed."""

    index: int
    num_prompt_tokens: int
    num_computed_tokens: int = 0


@dataclass(slots=True)
class _Load:
    """The counts of a step, excluding its decodes."""

    num_requests: int = 0
    num_tokens: int = 0
    num_context_tokens: int = 0
    num_pairs: int = 0
    done: list[int] = field(default_factory=list)


class _WhatIf:
    def __init__(self, requests: Sequence[TimedRequest], config: EngineConfig, cost: CostModel) -> None:
        self.requests, self.config, self.cost = requests, config, cost
        self.served = Served(requests, [0.0] * len(requests), [0.0] * len(requests))
        self.threshold = config.long_prefill_token_threshold or max((r.num_prompt_tokens for r in requests), default=0)
        self.now = 0.0
        self.next_waiting = 0
        self.prefills: list[_Prefill] = []
        self.num_decoding = 0
        self.decode_context = 0
        self.endings: list[tuple[int, int]] = []

    def run(self) -> Served:
        self._require_legal()
        while self.next_waiting < len(self.requests) or self.prefills or self.num_decoding:
            if not self.prefills and not self.num_decoding:
                self.now = max(self.now, self.requests[self.next_waiting].arrival_time)
            self._step()
            if self.num_decoding and not self.prefills:
                self._decode_on()
        return self.served

    def _require_legal(self) -> None:
        require_in_order(self.requests)
        if self.config.enable_chunked_prefill:
            return
        longest = min(self.threshold, max(request.num_prompt_tokens for request in self.requests))
        if longest > self.config.max_num_batched_tokens:
            raise ValueError(
                f"max_num_batched_tokens must be at least {longest}, because the longest prompt must fit in one step "
                f"with enable_chunked_prefill=False; got {self.config.max_num_batched_tokens}"
            )

    def _step(self) -> None:
        """Plan, advance the clock, and count the generated tokens."""
        served, num_decodes = self.served, self.num_decoding
        load = self._plan()
        context = self.decode_context + load.num_context_tokens
        num_tokens = num_decodes + load.num_tokens
        num_running = num_decodes + load.num_requests
        seconds = self.cost.step_seconds(
            num_running, num_tokens, context, self.decode_context + load.num_pairs, num_decodes + len(load.done)
        )
        self.now += seconds
        served.num_steps += 1
        served.num_computed_tokens += num_tokens
        if context > served.peak_context_tokens:
            served.peak_context_tokens = context
        if num_running > served.most_running:
            served.most_running = num_running
        if num_decodes:
            served.gaps.append((seconds, num_decodes))
            self.decode_context += num_decodes
            self._finish_requests()
        for index in load.done:
            self._start_decode(index)

    def _decode_on(self) -> None:
        """Run all steps before the next possible arrival or finish, as a fast path of `_step`."""
        served, step_seconds, add_gap = self.served, self.cost.step_seconds, self.served.gaps.append
        now, count, context = self.now, self.num_decoding, self.decode_context
        next_arrival = math.inf
        if self.next_waiting < len(self.requests) and count < self.config.max_num_seqs:
            next_arrival = self.requests[self.next_waiting].arrival_time
        num_left = self.endings[0][0] - 1 - served.num_steps
        num_steps = 0
        while num_steps < num_left and now < next_arrival:
            seconds = step_seconds(count, count, context, context, count)
            now += seconds
            add_gap((seconds, count))
            context += count
            num_steps += 1
        if num_steps:
            served.num_steps += num_steps
            served.num_computed_tokens += num_steps * count
            self.now, self.decode_context = now, context

    def _plan(self) -> _Load:
        """Give each prefill its chunk and admit waiting requests."""
        load = _Load()
        budget = self.config.max_num_batched_tokens - self.num_decoding
        for prefill in self.prefills:
            budget -= self._compute(prefill, budget, load)
        if budget and self._may_admit():
            self._admit(budget, load)
        if load.done:
            self.prefills = [p for p in self.prefills if p.num_computed_tokens < p.num_prompt_tokens]
        return load

    def _may_admit(self) -> bool:
        return (
            self.next_waiting < len(self.requests)
            and self.num_decoding + len(self.prefills) < self.config.max_num_seqs
            and self.requests[self.next_waiting].arrival_time <= self.now
        )

    def _admit(self, budget: int, load: _Load) -> None:
        while budget and self._may_admit():
            length = self.requests[self.next_waiting].num_prompt_tokens
            if not self.config.enable_chunked_prefill and min(length, self.threshold) > budget:
                break
            prefill = _Prefill(self.next_waiting, length)
            self.prefills.append(prefill)
            self.next_waiting += 1
            budget -= self._compute(prefill, budget, load)

    def _compute(self, prefill: _Prefill, budget: int, load: _Load) -> int:
        """Give a prefill its chunk and return the number of tokens in the chunk."""
        computed = prefill.num_computed_tokens
        num_tokens = min(prefill.num_prompt_tokens - computed, self.threshold, budget)
        prefill.num_computed_tokens += num_tokens
        load.num_requests += 1
        load.num_tokens += num_tokens
        load.num_context_tokens += prefill.num_computed_tokens
        load.num_pairs += pairs(computed, num_tokens)
        if prefill.num_computed_tokens == prefill.num_prompt_tokens:
            load.done.append(prefill.index)
        return num_tokens

    def _start_decode(self, index: int) -> None:
        """Record the first token of a computed prompt; the request decodes from the next step on."""
        request = self.requests[index]
        self.served.first_token_times[index] = self.now
        if request.num_output_tokens == 1:
            self.served.finished_times[index] = self.now
            return
        self.num_decoding += 1
        self.decode_context += request.num_prompt_tokens + 1
        heappush(self.endings, (self.served.num_steps + request.num_output_tokens - 1, index))

    def _finish_requests(self) -> None:
        """Remove the requests that got their last token in this step."""
        endings = self.endings
        while endings and endings[0][0] == self.served.num_steps:
            _, index = heappop(endings)
            request = self.requests[index]
            self.served.finished_times[index] = self.now
            self.num_decoding -= 1
            self.decode_context -= request.num_prompt_tokens + request.num_output_tokens
