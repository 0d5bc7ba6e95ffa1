"""Wrappers around the fake model (one records every batch, one fails on demand), and threads that compute early or
late."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.errors import RunnerError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.overlapping_engine import OverlappingEngine
from mini_vllm.runner.drafts.drafting_runner import DraftingRunner
from mini_vllm.runner.fake_model_runner import FakeModelRunner

Fault = Literal[
    "before", "half", "after", "interrupt", "missing", "extra", "range", "float", "bool", "two", "both", "logits"
]
RAISES: dict[Fault, type[BaseException]] = {
    "before": OSError,
    "half": OSError,
    "after": OSError,
    "interrupt": KeyboardInterrupt,
    "missing": RunnerError,
    "extra": RunnerError,
    "range": RunnerError,
    "float": RunnerError,
    "bool": RunnerError,
    "two": RunnerError,
    "both": RunnerError,
}
GARBAGE = -7


@dataclass(frozen=True)
class Row:
    request_id: str
    num_computed_tokens: int
    num_scheduled_tokens: int
    block_ids: tuple[int, ...]
    needs_token: bool


def row_of(r: ScheduledRequest) -> Row:
    return Row(r.request.request_id, r.num_computed_tokens, r.num_scheduled_tokens, tuple(r.block_ids), r.needs_token)


class SpyRunner:
    """Forwards every batch to the runner and keeps a copy of its rows."""

    def __init__(self, inner: ModelRunner) -> None:
        self.inner = inner
        self.vocab_size = inner.vocab_size
        self.batches: list[list[Row]] = []
        self.before_batch: Callable[[], object] | None = None

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        self.batches.append([row_of(scheduled) for scheduled in batch])
        if self.before_batch is not None:
            self.before_batch()
        return self.inner.execute_model(batch)

    @property
    def num_chunks(self) -> int:
        """The number of rows that computed tokens without sampling one."""
        return sum(not row.needs_token for batch in self.batches for row in batch)

    @property
    def num_computed_tokens(self) -> int:
        return sum(row.num_scheduled_tokens for batch in self.batches for row in batch)


class FaultyRunner:
    """A fake model that fails once after `fault` is set. `fired` is the id of the affected request, or None."""

    def __init__(self, inner: FakeModelRunner, ref_counts: Callable[[], dict[int, int]]) -> None:
        self.inner = inner
        self.ref_counts = ref_counts
        self.vocab_size = inner.vocab_size
        self.fault: Fault | None = None
        self.fired: str | None = None
        self.scribbles_over_unusable_logits = True

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        fault, self.fault = self.fault, None
        if fault is None:
            return self.inner.execute_model(batch)
        if fault in ("before", "half", "interrupt"):
            self.fired = batch[0].request.request_id
            if fault == "half":
                self._scribble(batch)
            raise RAISES[fault](f"injected: {fault}")
        output = self.inner.execute_model(batch)
        if fault == "after":
            self.fired = batch[0].request.request_id
            raise OSError("injected: after")
        return self._spoiled(batch, output, fault)

    def _scribble(self, batch: Sequence[ScheduledRequest]) -> None:
        """Write garbage to every slot that this step should fill, except in blocks that requests share."""
        for row in batch:
            first = row.num_computed_tokens
            for position in range(first, first + row.num_scheduled_tokens):
                index, offset = divmod(position, self.inner.block_size)
                if self.ref_counts().get(row.block_ids[index]) == 1:
                    self.inner.slots[row.block_ids[index] * self.inner.block_size + offset] = GARBAGE

    def _spoiled(self, batch: Sequence[ScheduledRequest], output: ModelRunnerOutput, fault: Fault) -> ModelRunnerOutput:
        answers = dict(output.sampled_token_ids)
        if fault == "extra":
            self.fired = "no-such-request"
            return ModelRunnerOutput({**answers, "no-such-request": [1]})
        if not answers:
            return output
        self.fired = next(reversed(answers))
        if fault in ("logits", "both"):
            if fault == "logits":
                del answers[self.fired]
                if self.scribbles_over_unusable_logits:
                    self._scribble([row for row in batch if row.request.request_id == self.fired])
            return ModelRunnerOutput(answers, {self.fired: "the logits are not finite"})
        if fault == "missing":
            del answers[self.fired]
        else:
            drafts = next(row.draft_token_ids for row in batch if row.request.request_id == self.fired)
            wrong: dict[str, list[Any]] = {"range": [self.vocab_size], "float": [1.0], "bool": [True]}
            answers[self.fired] = wrong.get(fault, [1, 2, *drafts])
        return ModelRunnerOutput(answers)


def install_spy(engine: LLMEngine) -> SpyRunner:
    spy = SpyRunner(_innermost(engine))
    _replace(engine, spy)
    return spy


def install_faults(engine: LLMEngine) -> FaultyRunner:
    model = _innermost(engine)
    assert isinstance(model, FakeModelRunner)
    faulty = FaultyRunner(model, lambda: engine.scheduler.kv.ref_counts())
    _replace(engine, faulty)
    return faulty


def _innermost(engine: LLMEngine) -> ModelRunner:
    return engine.runner.inner if isinstance(engine.runner, DraftingRunner) else engine.runner


def _replace(engine: LLMEngine, runner: ModelRunner) -> None:
    """Replace the runner that computes, even if it is wrapped in a runner that proposes drafts."""
    if isinstance(engine.runner, DraftingRunner):
        engine.runner.inner = runner
    else:
        engine.runner = runner


class LateFuture(Future[Any]):
    """Computes when its result is requested, after the computations that started before it."""

    def __init__(self, ask: Callable[["LateFuture"], None]) -> None:
        super().__init__()
        self.ask = ask

    def result(self, timeout: float | None = None) -> Any:
        self.ask(self)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.ask(self)
        return super().exception(timeout)


class EarlyThread(ThreadPoolExecutor):
    """Computes a step before the engine does anything else."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(function, *args, **kwargs)
        future.exception()
        return future


class LateThread(ThreadPoolExecutor):
    """Computes a step only once the engine waits for it; until then, the step can be cancelled."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._started: list[tuple[LateFuture, Callable[[], Any]]] = []

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = LateFuture(self._compute_until)
        self._started.append((future, lambda: function(*args, **kwargs)))
        return future

    def _compute_until(self, wanted: LateFuture) -> None:
        while not wanted.done():
            future, compute = self._started.pop(0)
            if future.set_running_or_notify_cancel():
                computed = super().submit(compute)
                if (error := computed.exception()) is not None:
                    future.set_exception(error)
                else:
                    future.set_result(computed.result())


def pace_runner(engine: LLMEngine, *, late: bool) -> None:
    """Make an engine's runner thread compute early or late, however busy the machine is."""
    if isinstance(engine, OverlappingEngine):
        thread = LateThread if late else EarlyThread
        engine.runner_thread._executor = thread(max_workers=1, thread_name_prefix="paced-runner")
