"""One call of `update_from_output`: what goes in and what came out. Nothing here is to be filled in."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from course.labtest.expect import BESIDE, alone, expect_equal, explained
from course.labtest.phase1.doubles import BlockCountingKV, CallLog
from course.labtest.support import fields_of
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import Preempted, SchedulerOutput
from mini_vllm.sampling_params import SamplingParams

EOS = 2
DECIDED = ("all_token_ids", "status", "stop_reason")
FREED = "freed, in order"
FIRST_OF_ALL = (
    "take the requests in the order of the step and their tokens one by one: which is the first that differs?"
)
OTHER_FREES = (
    "`kv.free` alone is called otherwise than expected. For which requests, in which order, with which number?"
)


class Update:
    """One call of `update_from_output`: what went in, what came out, and which blocks were freed."""

    def __init__(
        self,
        running: list[Request],
        sampled: Mapping[str, list[int]],
        *,
        planned: Sequence[str] = (),
        gone: Sequence[str] = (),
        waiting: Sequence[Request] = (),
        max_model_len: int = 1000,
    ) -> None:
        self.planned = planned or [r.request_id for r in running]
        self.before = [
            f"step    {' '.join(self.planned)}   RUNNING {' '.join(r.request_id for r in running) or 'empty'}",
            f"sampled {dict(sampled)}   max_model_len={max_model_len}   EOS is {EOS}",
            *(f"request {_facts(r)}" for r in running),
            *(f"waits   {_facts(r)}: preempted while its step was under way" for r in waiting),
            *(f"gone    {name} was aborted during the forward pass" for name in gone),
        ]
        self.all_requests = [*running, *waiting]
        self.running_before = [r.request_id for r in running]
        self.running = running
        self.requests = {r.request_id: r for r in self.all_requests}
        self.sampled = {name: list(token_ids) for name, token_ids in sampled.items()}
        self.scheduler_output = SchedulerOutput(100, dict.fromkeys(self.planned, 1), [Preempted("Z", "Y", 0)])
        self.max_model_len = max_model_len
        self.log = CallLog(self.before)
        self.kept: object = None
        self._fields_before = {r.request_id: fields_of(r) for r in self.all_requests}
        self._arguments_before = self._arguments()

    def apply(self, phase1: ModuleType, rule: str = "") -> None:
        """Call `update_from_output`. `rule` is what the test is about, for the text of an exception."""
        with explained(self.before, rule=rule):
            self.kept = phase1.update_from_output(
                self.scheduler_output,
                self.sampled,
                self.requests,
                self.running,
                max_model_len=self.max_model_len,
                kv=BlockCountingKV(10_000, 1, self.log),
            )

    def outcome(self) -> dict[str, object]:
        kept = self.kept
        arguments = self._arguments()
        return {
            "returned": {name: list(kept[name]) for name in sorted(kept)} if isinstance(kept, Mapping) else kept,
            "RUNNING": [r.request_id for r in self.running],
            "outputs": {r.request_id: r.output_token_ids for r in self.all_requests},
            "finished": {r.request_id: r.finish_reason for r in self.all_requests if r.is_finished},
            "stop reasons": {r.request_id: r.stop_reason for r in self.all_requests if r.stop_reason is not None},
            FREED: [call[len("kv.free(") : -1] for call in self.log],
            "also changed": [
                *(name for name in arguments if arguments[name] != self._arguments_before[name]),
                *(f"{r.request_id}.{name}" for r in self.all_requests for name in self._fields_changed(r)),
            ],
        }

    def check(
        self,
        phase1: ModuleType,
        rule: str,
        hint: str,
        *,
        returned: Mapping[str, list[int]],
        running: str,
        finished: Mapping[str, str] | None = None,
        freed: str = "",
        stop_reasons: Mapping[str, int] | None = None,
        hint_fits: Callable[[Mapping[str, Any]], bool] = bool,
    ) -> None:
        """Make the call and compare. What a request keeps is appended to its outputs, nothing else is.

        The hint is shown only for an outcome that it fits.
        """
        expected = {
            "returned": dict(returned),
            "RUNNING": running.split(),
            "outputs": {r.request_id: r.output_token_ids + returned.get(r.request_id, []) for r in self.all_requests},
            "finished": dict(finished or {}),
            "stop reasons": dict(stop_reasons or {}),
            FREED: freed.split(),
            "also changed": [],
        }
        self.apply(phase1, rule)
        yours = self.outcome()
        hint = hint if hint_fits(yours) else FIRST_OF_ALL
        hint = what_differs(yours, expected, (*BESIDE, "stop reasons")) or hint
        expect_equal(yours, expected, rule=rule, situation=self.before, hint=hint)

    def _arguments(self) -> dict[str, object]:
        plan = self.scheduler_output
        return {
            "the plan": (list(plan.num_scheduled_tokens.items()), plan.token_budget, len(plan.preempted)),
            "`sampled_token_ids`": {name: list(token_ids) for name, token_ids in self.sampled.items()},
            "`requests`": dict(self.requests),
        }

    def _fields_changed(self, request: Request) -> list[str]:
        before, now = self._fields_before[request.request_id], fields_of(request)
        return [name for name in now if now[name] != before[name] and name not in DECIDED]


def what_differs(yours: Mapping[str, object], expected: Mapping[str, object], labels: Iterable[str]) -> str:
    """Return a question about what differs if that is one thing, with one of these labels, or what was freed."""
    return OTHER_FREES if alone(yours, expected, [FREED]) else alone(yours, expected, labels)


def _facts(request: Request) -> str:
    params = request.sampling_params
    text = f"{request.request_id}: {request.num_prompt_tokens} prompt + {request.num_output_tokens} output tokens, "
    text += f"max_tokens={params.max_tokens}{', ignores EOS' if params.ignore_eos else ''}"
    return text + (f", stop_token_ids={params.stop_token_ids}" if params.stop_token_ids else "")


def caught_up(
    name: str,
    num_outputs: int = 0,
    *,
    num_prompt: int = 4,
    max_tokens: int = 100,
    stop_token_ids: tuple[int, ...] = (),
    ignore_eos: bool = False,
) -> Request:
    """Return a running request whose tokens are all computed, as after its step."""
    params = SamplingParams(max_tokens=max_tokens, stop_token_ids=stop_token_ids, ignore_eos=ignore_eos)
    request = Request(name, list(range(1000, 1000 + num_prompt)), params, eos_token_ids=frozenset({EOS}))
    request.all_token_ids += range(5000, 5000 + num_outputs)
    request.num_computed_tokens = request.num_tokens
    request.status = RequestStatus.RUNNING
    request.num_preemptions, request.num_cached_tokens = 1, 2  # not the defaults: a reset would not be seen
    return request
