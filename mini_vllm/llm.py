"""`LLM`, the offline interface, with the same methods as vLLM's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import Lineup, lineup_from_env
from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Message
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams

if TYPE_CHECKING:
    from mini_vllm.engine.metrics import Metric
    from mini_vllm.engine.statistics import EngineStatistics

Value = TypeVar("Value")


class LLM:
    """Generates text offline with a model and an engine, assembled from the code that a lineup names.

    `model` is a directory or hub name; None means the small model that comes with the course. `lineup` defaults to
    `LAB_IMPL`. `record` keeps a trace of every step in `llm.engine.recorder.steps`. `dense` matters only without phase
    6: it generates real text, slowly, with a plain forward pass instead of the fake model's letters. `adapters` maps
    names to directories in PEFT's format. `disable_log_stats=False` collects statistics for `get_metrics` and logs a
    line every ten seconds, as in vLLM. `quantization` overrides the value in the model's config.
    """

    def __init__(
        self,
        model: str | None = None,
        config: EngineConfig | None = None,
        lineup: Lineup | None = None,
        *,
        record: bool = False,
        dense: bool = False,
        adapters: Mapping[str, str] | None = None,
        disable_log_stats: bool = True,
        quantization: str | None = None,
    ) -> None:
        self.lineup = lineup or lineup_from_env()
        self._model_name = model or "mini-vllm"
        config = config or EngineConfig()
        if quantization is not None:
            config = replace(config, quantization=quantization)
        self.engine = build_engine(config, self.lineup, model, record=record, dense=dense, adapters=adapters)
        self._request_ids = map(str, count())
        self._statistics = None if disable_log_stats else _counting(self.engine)

    def generate(
        self,
        prompts: str | Sequence[str] | Sequence[list[int]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        on_step: Callable[[list[RequestOutput]], None] | None = None,
        *,
        adapter: str | Sequence[str | None] | None = None,
        priority: int | Sequence[int] = 0,
        cache_salt: str | Sequence[str | None] | None = None,
    ) -> list[RequestOutput]:
        """Complete the prompts together and return one output for each, in the same order.

        `adapter`, `priority` and `cache_salt` each take one value for all prompts, or one per prompt. An adapter of
        None selects the model itself. `on_step` is called after every engine step with the outputs that grew in that
        step. Raises `ValueError` if any prompt cannot be served; in that case, none of the prompts are served.
        """
        inputs: list[str | list[int]] = [prompts] if isinstance(prompts, str) else list(prompts)
        params = _one_each("sampling_params", sampling_params or SamplingParams(), inputs)
        adapters: list[str | None] = _one_each("adapters", adapter, inputs)
        priorities: list[int] = _one_each("priorities", priority, inputs)
        salts: list[str | None] = _one_each("cache salts", cache_salt, inputs)
        request_ids: list[str] = []
        finished: dict[str, RequestOutput] = {}
        try:
            for prompt, chosen, name, rank, salt in zip(inputs, params, adapters, priorities, salts, strict=True):
                request_id = next(self._request_ids)
                self.engine.add_request(request_id, prompt, chosen, priority=rank, cache_salt=salt, adapter_id=name)
                request_ids.append(request_id)
            while self.engine.has_unfinished_requests():
                outputs = self.engine.step()
                finished |= {output.request_id: output for output in outputs if output.finished}
                self._count_finished(outputs)
                if on_step is not None:
                    on_step(outputs)
        finally:
            for request_id in request_ids:
                self.engine.abort_request(request_id)
        return [finished[request_id] for request_id in request_ids]

    def chat(
        self,
        conversations: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        on_step: Callable[[list[RequestOutput]], None] | None = None,
        *,
        adapter: str | Sequence[str | None] | None = None,
        priority: int | Sequence[int] = 0,
        cache_salt: str | Sequence[str | None] | None = None,
    ) -> list[RequestOutput]:
        """Answer one or more conversations, formatted with the model's chat template. Takes the same options as
        `generate`."""
        many = [conversations] if conversations and "role" in conversations[0] else conversations
        template = self.engine.tokenizer.apply_chat_template
        prompts = [template(messages) for messages in many]  # type: ignore[arg-type]
        return self.generate(
            prompts, sampling_params, on_step, adapter=adapter, priority=priority, cache_salt=cache_salt
        )

    def reset_prefix_cache(self) -> bool:
        """Empty the prefix cache and return True, as in vLLM; return False while a request holds a block."""
        from mini_vllm.electives.releases.reset import reset_prefix_cache  # rarely called

        return reset_prefix_cache(self.engine.scheduler)

    def get_metrics(self) -> "list[Metric]":
        """Return the engine's metrics as objects of vLLM's metric classes. Raises `ValueError` if `disable_log_stats`
        is True."""
        if self._statistics is None:
            raise ValueError(
                "get_metrics needs disable_log_stats=False: build the engine with LLM(disable_log_stats=False)"
            )
        from mini_vllm.engine.metrics import get_metrics_snapshot

        return list(get_metrics_snapshot(self._statistics.counts, self._model_name))

    def _count_finished(self, outputs: list[RequestOutput]) -> None:
        if self._statistics is not None:
            for _ in filter(attrgetter("finished"), outputs):
                self._statistics.counts.histograms["request_params_n"].observe(1)


def _counting(engine: LLMEngine) -> "EngineStatistics":
    """Start collecting an engine's statistics and return them.

    The imports are local, so that they cost nothing if unused.
    """
    from mini_vllm.engine.metrics import StepLogger
    from mini_vllm.engine.statistics import EngineStatistics

    statistics = EngineStatistics(engine)
    engine.add_observer(statistics)
    engine.add_observer(StepLogger(engine, statistics.counts))
    return statistics


def _one_each(name: str, given: Value | Sequence[Value], prompts: Sequence[object]) -> list[Value]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        return [given] * len(prompts)
    if len(given) != len(prompts):
        raise ValueError(
            f"got {len(prompts)} prompts but {len(given)} {name}: give one for all, or one for each prompt"
        )
    return list(given)
