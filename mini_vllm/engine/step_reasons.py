"""Derives from a step's calls why requests got no token, and which limits reduced shares."""

from typing import TYPE_CHECKING, Any, cast

from mini_vllm.config import EngineConfig
from mini_vllm.core.absent import WholePrompts
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.gates.gated import AdmissionGates, transfers_of
from mini_vllm.electives.wrappers import WrappedChunks
from mini_vllm.engine.step_calls import Asked, Shortage, StepCalls, shortage_of

if TYPE_CHECKING:  # the default rules (0.13.0) do not need modules for later releases
    from mini_vllm.electives.releases.step_state import StepState

Found = dict[str, Any]
QUEUED = (RequestStatus.WAITING, RequestStatus.PREEMPTED)


class StepReasons:
    """Explains each plan of one scheduler."""

    def __init__(self, scheduler: Scheduler, config: EngineConfig) -> None:
        self.scheduler, self.config = scheduler, config
        self.calls = StepCalls(scheduler)
        self._plan = SchedulerOutput(0)
        self._left = 0

    def of_step(self, plan: SchedulerOutput) -> tuple[dict[str, Found], dict[str, Found]]:
        """Return the reasons why requests got no token, and the limits that reduced shares.

        Call this right after `schedule()`. Both results map request ids to a name and the numbers for its sentence.
        """
        self._plan, self._left = plan, self.scheduler.max_num_batched_tokens - plan.total_num_scheduled_tokens
        victims = {entry.victim_id: entry.cause_id for entry in plan.preempted}
        reasons, limits = dict[str, Found](), dict[str, Found]()
        planned, asked, gates = plan.num_scheduled_tokens, self.calls.asked, self._gate_names
        others: Found | None = None  # a single reason for all queued requests that the step did not consider
        for name, request in self.scheduler.requests.items():
            if name in planned:
                if request.num_computed_tokens < len(request.all_token_ids) and name in asked:
                    limits[name] = self._limit(request, planned[name], asked[name])
            elif name in asked or name in victims or name in gates or request.status not in QUEUED:
                cause = victims.get(name)  # "" if the prefix cache was reset before the step
                preempted = {"reason": "self_preempted"} if cause == name else {"reason": "preempted", "by": cause}
                reasons[name] = preempted if cause else self._why(request)
            else:
                reasons[name] = others = others or self._unasked(is_waiting=True)
        return reasons, limits

    @property
    def _release(self) -> "StepState | None":
        return cast("StepState | None", self.scheduler.release)

    @property
    def _gate_names(self) -> dict[str, str]:
        return self.scheduler.gates.whys if isinstance(self.scheduler.gates, AdmissionGates) else {}

    def _why(self, request: Request) -> Found:
        name, calls = request.request_id, self.calls
        asked, gate = calls.asked.get(name), self._gate_names.get(name)
        is_waiting = request.status is not RequestStatus.RUNNING
        if is_waiting and (held := self._held(request, gate)):
            return self._gate(held)
        if is_waiting and gate == "blocks":
            return self._load_refused(request)
        if asked is None:
            return self._unasked(is_waiting=is_waiting)
        if name in calls.shortages:
            return self._short(calls.shortages[name], is_waiting=is_waiting)
        if name in calls.guarded:
            return {"reason": "guard", "free": self.scheduler.kv.num_free_blocks}
        if asked[0]:
            return self._unused(self._left)
        return self._ungranted(request, asked, is_waiting=is_waiting)

    def _unused(self, left: int) -> Found:
        return {"reason": "policy"} if self.scheduler.has_policy else {"reason": "no_tokens", "left": left}

    def _held(self, request: Request, gate: str | None) -> str:
        """Return why a waiting request cannot be admitted even if all blocks are free, or ""."""
        transfers = transfers_of(self.scheduler)
        if request.status is RequestStatus.WAITING_FOR_FSM and request.grammar is not None:
            return gate or ("grammar" if not request.grammar.done() else "")
        if transfers is not None and transfers.is_loading(request):
            return "transfer"
        return "" if gate is None or gate == "blocks" else gate

    def _gate(self, name: str) -> Found:
        config = self.config
        encoder = {"budget": config.max_num_encoder_input_tokens, "cache": config.encoder_cache_size}
        numbers: dict[str, Found] = {"adapters": {"adapters": config.max_loras}, "images": encoder}
        return {"reason": name, **numbers.get(name, {})}

    def _load_refused(self, request: Request) -> Found:
        transfers = transfers_of(self.scheduler)
        assert transfers is not None
        hit_blocks, num_external = transfers.refused_load
        short = shortage_of(self.scheduler, transfers.kv, request, num_external, hit_blocks)
        return self._short(short, is_waiting=True)

    def _short(self, short: Shortage, *, is_waiting: bool) -> Found:
        numbers = {"needed": short.needed, "free": short.free}
        if not short.is_real:
            return {"reason": "refused", **numbers}
        if not is_waiting and self._release is not None and self._release.defers_frees:
            return {"reason": "blocks_in_flight"}
        if short.promised or short.kept:
            return {"reason": "reservation", **numbers, "promised": short.promised, "kept": short.kept}
        return {"reason": "blocks", **numbers}

    def _unasked(self, *, is_waiting: bool) -> Found:
        """Return why a step did not even consider a request."""
        scheduler, calls, last_short = self.scheduler, self.calls, self._last_short
        if scheduler.release is not None and scheduler.release.is_paused:
            return {"reason": "paused"}
        if is_waiting and calls.head is None and last_short:
            return {"reason": "closed", "by": last_short}
        if is_waiting and calls.head is not None and calls.head not in self._plan.num_scheduled_tokens:
            return {"reason": "behind", "by": calls.head}
        if self._left <= 0:
            return self._spent()
        if is_waiting and len(scheduler.running) >= scheduler.max_num_seqs:
            return {"reason": "seats", "running": len(scheduler.running), "seats": scheduler.max_num_seqs}
        if not is_waiting and last_short:
            return {"reason": "loop_ended", "by": last_short}
        if self.scheduler.has_policy:
            return {"reason": "policy"}
        seats = max(0, scheduler.max_num_seqs - len(scheduler.running))
        return {"reason": "overlooked", "left": self._left, "seats": seats, "free": scheduler.kv.num_free_blocks}

    def _num_computed_tokens(self, request: Request, asked: Asked) -> int:
        gates = self.scheduler.gates
        _, num_computed_tokens, _ = asked
        if request.status is RequestStatus.RUNNING or not isinstance(gates, AdmissionGates):
            return num_computed_tokens
        return gates.kv.num_computed_tokens(request, num_computed_tokens)

    def _ungranted(self, request: Request, asked: Asked, *, is_waiting: bool) -> Found:
        """Return why phase 5, with the limits around it, granted no tokens."""
        release, gate = self._release, self._gate_names.get(request.request_id)
        num_computed_tokens = self._num_computed_tokens(request, asked)
        if not is_waiting and self._is_planned(request):
            return {"reason": "in_flight"}
        _, _, left = asked
        if release is not None and release.limits_rows:
            left = min(left, release.num_rows_left)
        if left <= 0:
            return self._spent()
        if release is not None and release.holds_prompts:
            is_prompt = num_computed_tokens < request.num_tokens - 1
            if is_prompt if is_waiting else request.request_id in release.in_prompt:
                return {"reason": "interval", "interval": release.interval}
        if not is_waiting and release is not None and release.left is not None:
            if request.request_id not in release.left and (last_short := self._last_short):
                return {"reason": "loop_ended", "by": last_short}
        if gate is not None:
            return self._gate(gate)
        if release is not None and is_waiting and release.pads(request, num_computed_tokens):
            return {"reason": "padding", "drafts": release.num_drafts, "left": left}
        needed = request.num_tokens - num_computed_tokens
        if is_waiting and needed > left and not self._cuts_prompts:
            return {"reason": "whole_prompt", "needed": needed, "left": left}
        return self._unused(left)

    @property
    def _cuts_prompts(self) -> bool:
        chunks = self.scheduler.chunks
        while isinstance(chunks, WrappedChunks):
            chunks = chunks.inner
        return self.config.enable_chunked_prefill and not isinstance(chunks, WholePrompts)

    @property
    def _last_short(self) -> str | None:
        """The running request that got no blocks, or for which this step preempted requests."""
        caused = [entry.cause_id for entry in self._plan.preempted if entry.cause_id]
        return self.calls.short[-1] if self.calls.short else caused[-1] if caused else None

    def _is_planned(self, request: Request) -> bool:
        """Return whether the steps in flight compute all known tokens of a running request, or its last token."""
        ahead = self.scheduler.max_model_len - 1 - request.num_tokens
        num_tokens = request.num_tokens + min(request.num_tokens_ahead, max(0, ahead))
        if request.num_computed_tokens >= min(num_tokens, self.scheduler.max_model_len - 1):
            return True
        num_outputs = request.num_output_tokens + request.num_output_placeholders
        return request.num_output_placeholders > 0 and num_outputs >= request.sampling_params.max_tokens

    def _spent(self) -> Found:
        planned, budget = self._plan.num_scheduled_tokens, self.scheduler.max_num_batched_tokens
        most = max(planned, key=lambda name: planned[name], default="")
        return {"reason": "tokens", "budget": budget, "on": most, "most": planned.get(most, 0)}

    def _limit(self, request: Request, share: int, asked: Asked) -> Found:
        """Return which limit determined a share. `schedule()` has already counted the share as computed."""
        release, end = self._release, request.num_computed_tokens
        threshold = release.threshold if release is not None else self.config.long_prefill_token_threshold
        _, _, token_budget = asked
        if share == token_budget:
            return {"limit": "tokens", "budget": share}
        if share == threshold:
            return {"limit": "threshold", "threshold": threshold}
        if end == self.scheduler.max_model_len - 1:
            return {"limit": "model_length", "max_model_len": self.scheduler.max_model_len}
        if (gate := self._gate_names.get(request.request_id)) is not None:
            return {"limit": gate}
        if release is not None and release.limits_rows and share < token_budget:
            return {"limit": "tokens", "budget": share}
        return {"limit": "chunks", "n": share, "needed": request.num_tokens - end + share}
