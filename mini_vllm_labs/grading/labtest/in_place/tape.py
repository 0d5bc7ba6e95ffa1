"""Replays the recorded answers of phases 7 and 8 around the other phases. This file contains no tasks.

Answers are recorded, because code that follows the contracts would reveal a solution. An answer's key is the question:
the request's counters and the arguments. A run with an unknown question has diverged from the recorded run.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from mini_vllm.assembly.elective_parts import async_functions_for, speculation_functions_for
from mini_vllm.assembly.parts import chunk_policy_for
from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import Clamp
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.electives.async_scheduling import AsyncFunctions
from mini_vllm.electives.speculation import SpeculationFunctions
from mini_vllm_labs.grading.labtest.in_place.neighbours import drawn

Method = Callable[..., Any]
NOTHING: Any = None
OF_THE_RUNNER = "accept_drafts", "correct_share"  # also called for dropped batches if the thread was fast enough


class OtherRunError(Exception):
    """The run made a call that the recorded run did not make."""


def counters_of(request: Request) -> tuple[str, int, int, int]:
    """Return a request's id and its numbers of known tokens, computed tokens and placeholders."""
    return request.request_id, request.num_tokens, request.num_computed_tokens, request.num_output_placeholders


def share_of(one: ScheduledRequest) -> list[Any]:
    """Return a share's start, size and drafts."""
    return [one.num_computed_tokens, one.num_scheduled_tokens, list(one.draft_token_ids)]


class Tape:
    """Maps questions to answers; an empty tape records the reference's answers."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.is_recording = answers is None
        self.answers = answers or {}
        self.unknown = ""

    def ask(self, answer: Callable[[], Any], otherwise: Any, *question: Any) -> Any:
        """Return the recorded answer; if the tape started empty, record `answer()`. `otherwise` is the answer to
        unknown questions."""
        key = str(drawn(*question))
        if self.is_recording:
            self.answers[key] = answer()
        elif key not in self.answers and question[0] not in OF_THE_RUNNER:
            name, *about = question
            self.unknown = self.unknown or f"{name} is asked with other numbers than recorded: {about}"
        return self.answers.get(key, otherwise)

    def require_known(self) -> None:
        """Raise `OtherRunError` after an unknown question, before its consequences appear."""
        if self.unknown:
            raise OtherRunError(self.unknown)

    def speculation(self, config: EngineConfig) -> SpeculationFunctions:
        """Return phase 7. Unlike the reference, this phase reserves more slots for requests with longer names."""
        real: Any = speculation_functions_for("solution", config) if self.is_recording else NOTHING

        def make(num_drafts: int, has_cache: bool) -> Any:
            scheduling = real and real.make_scheduling(num_drafts, has_cache)

            def schedule_drafts(request: Request) -> list[int]:
                def answer() -> int:
                    return len(scheduling.schedule_drafts(copy(request)))

                is_ahead = request.num_computed_tokens > request.num_tokens
                num_drafts = self.ask(answer, 0, "schedule_drafts", *counters_of(request)) if is_ahead else 0
                drafts, request.spec_token_ids = request.spec_token_ids[:num_drafts], []
                return drafts

            return SimpleNamespace(
                num_lookahead_tokens=lambda request: len(request.request_id) % 3,
                usable_hit_blocks=lambda hit_blocks: hit_blocks,
                schedule_drafts=schedule_drafts,
                roll_back=self._of_request("roll_back", scheduling),
            )

        def accept(draft_token_ids: Sequence[int], sampled_token_ids: Sequence[int]) -> list[int]:
            drafts, sampled = list(draft_token_ids), list(sampled_token_ids)
            num_kept = self.ask(lambda: len(real.accept_drafts(drafts, sampled)), 1, "accept_drafts", drafts, sampled)
            return sampled[:num_kept]

        return SpeculationFunctions(make, NOTHING, NOTHING, accept, NOTHING)

    def placeholders(self, config: EngineConfig) -> AsyncFunctions:
        """Return phase 8; `is_surely_over` is always false."""
        real: Any = async_functions_for("solution", config) if self.is_recording else NOTHING

        def make(num_drafts: int) -> Any:
            scheduling = real and real.make_scheduling(num_drafts)
            return SimpleNamespace(
                is_surely_over=lambda request: False,
                take_placeholders=self._of_request("take_placeholders", scheduling),
                fill_placeholders=self._of_request("fill_placeholders", scheduling),
            )

        def correct(
            scheduled: ScheduledRequest, num_rejected_tokens: int, draft_token_ids: Sequence[int]
        ) -> ScheduledRequest:
            def answer() -> list[Any]:
                return share_of(real.correct_share(scheduled, num_rejected_tokens, draft_token_ids))

            planned = share_of(scheduled)
            about = (scheduled.request.request_id, *planned, num_rejected_tokens, list(draft_token_ids))
            start, size, drafts = self.ask(answer, planned, "correct_share", *about)
            return replace(scheduled, num_computed_tokens=start, num_scheduled_tokens=size, draft_token_ids=drafts)

        return AsyncFunctions(make, correct)

    def should_sample(self, config: EngineConfig, clamp: Clamp) -> Method:
        """Return phase 5's `should_sample`, which phases 7 and 8 need."""
        real: Any = chunk_policy_for("solution", config, clamp) if self.is_recording else NOTHING

        def should_sample(request: Request, num_computed_tokens: int) -> bool:
            about = "should_sample", request.num_tokens, num_computed_tokens
            return bool(self.ask(lambda: bool(real.should_sample(request, num_computed_tokens)), False, *about))

        return should_sample

    def _of_request(self, name: str, scheduling: Any) -> Method:
        """Return a method that sets a request's counters and drafts to the recorded values."""

        def method(request: Request, *given: int) -> None:
            def answer() -> list[Any]:
                own = copy(request)
                getattr(scheduling, name)(own, *given)
                drafts = None if own.spec_token_ids == request.spec_token_ids else own.spec_token_ids
                num_ahead = own.num_output_placeholders - request.num_output_placeholders
                return [own.num_computed_tokens - request.num_computed_tokens, num_ahead, drafts]

            question = name, *counters_of(request), *given
            num_computed, num_ahead, drafts = self.ask(answer, [0, 0, None], *question)
            request.num_computed_tokens += num_computed
            request.num_output_placeholders += num_ahead
            if drafts is not None:
                request.spec_token_ids = list(drafts)

        return method
