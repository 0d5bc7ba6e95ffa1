"""Runs transformers as a backend in two ways: `generate` on padded batches, and continuous batching."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, StoppingCriteria
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from mini_vllm.runner.loading import pick_device
from mini_vllm_labs.bench.backend import Arrivals, BackendSettings, Load, OnProgress, ServedRound
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

PAGE_SIZE = 32


def load(settings: BackendSettings) -> Any:
    """Load the model with transformers."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        settings.model, dtype=getattr(torch, settings.dtype), trust_remote_code=False
    )
    return model.to(pick_device()).eval()


def sampling(temperature: float) -> dict[str, Any]:
    """Return the sampling options of `generate`. The default `top_k` of `generate` keeps the 50 most likely tokens; 0
    keeps all of them."""
    return {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}


class TokenClock(StoppingCriteria):
    """Records the time of every token: transformers calls it after each token, and it never stops generation."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self.times: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        self.times.append(self.arrivals.now)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class StaticBatches:
    """Calls `generate` on up to `batch_size` requests that have arrived, padded to the longest, until all have
    finished.

    The batch size of a load takes precedence, unless requests are served one by one.
    """

    def __init__(self, settings: BackendSettings, batch_size: int) -> None:
        self.model = load(settings)
        self.batch_size = batch_size
        self.facts: dict[str, Any] = {"batch_size": batch_size}

    def serve(self, requests: Sequence[TimedRequest], on_progress: OnProgress, load: Load) -> ServedRound:
        """Serve a round; each batch holds the requests that are waiting when the previous batch ends."""
        batch_size = self.batch_size if self.batch_size == 1 else load.batch_size or self.batch_size
        arrivals = Arrivals(requests, batch_size, on_progress)
        while not arrivals.all_in:
            arrivals.wait()
            indices, clock = arrivals.take(), TokenClock(arrivals)
            answers = self._generate([requests[index] for index in indices], clock, load.temperature)
            for index, answer in zip(indices, answers, strict=True):
                length = requests[index].num_output_tokens
                arrivals.note(index, answer[:length], clock.times[:length])
        return arrivals.served()

    @torch.inference_mode()
    def _generate(self, batch: list[TimedRequest], clock: TokenClock, temperature: float) -> list[list[int]]:
        longest = max(request.num_prompt_tokens for request in batch)
        input_ids = torch.zeros(len(batch), longest, dtype=torch.int64)
        attention_mask = torch.zeros_like(input_ids)
        for row, request in enumerate(batch):
            # Padded on the left, because `generate` appends on the right.
            input_ids[row, longest - request.num_prompt_tokens :] = torch.tensor(request.prompt_token_ids)
            attention_mask[row, longest - request.num_prompt_tokens :] = 1
        generated = self.model.generate(
            input_ids=input_ids.to(self.model.device),
            attention_mask=attention_mask.to(self.model.device),
            max_new_tokens=max(request.num_output_tokens for request in batch),
            **sampling(temperature),
            eos_token_id=None,
            pad_token_id=0,
            stopping_criteria=[clock],
        )
        answers: list[list[int]] = generated[:, longest:].tolist()
        return answers


class Continuous:
    """Serves requests with transformers' continuous batching, through its manager."""

    def __init__(self, settings: BackendSettings) -> None:
        self.model = load(settings)
        self.temperature = 0.0
        known = inspect.signature(ContinuousBatchingConfig).parameters
        name = "page_size" if "page_size" in known else "block_size"  # the latter was added in transformers 5.17
        page_size: dict[str, Any] = {name: PAGE_SIZE}
        self.batching = ContinuousBatchingConfig(
            num_blocks=settings.kv_cache_tokens // PAGE_SIZE + 4,
            max_batch_tokens=settings.max_num_batched_tokens,
            **page_size,
        )
        self.facts: dict[str, Any] = {"page_size": PAGE_SIZE}

    def serve(self, requests: Sequence[TimedRequest], on_progress: OnProgress, load: Load) -> ServedRound:
        """Serve a round. The manager records when each token is generated."""
        index_of: dict[str, int] = {}
        if load.temperature != self.temperature:
            self.model.destroy_cached_continuous_batching_manager()  # a cached manager would keep the last temperature
            self.temperature = load.temperature
        # -1 is not a token id, so every request runs to its full length.
        generation = GenerationConfig(  # type: ignore[no-untyped-call]
            **sampling(load.temperature), eos_token_id=-1, pad_token_id=0, max_new_tokens=1
        )
        with self.model.continuous_batching_context_manager(
            generation_config=generation,
            continuous_batching_config=self.batching,
            block=True,
            timeout=5,
            persistent_manager=True,  # otherwise, every round would allocate a new cache
            warmup=False,
        ) as manager:
            arrivals = Arrivals(requests, load.batch_size, on_progress)
            while not arrivals.all_finished:
                for index in arrivals.take():
                    length = requests[index].num_output_tokens
                    request_id = manager.add_request(
                        list(requests[index].prompt_token_ids), max_new_tokens=length, record_timestamps=True
                    )
                    index_of[request_id] = index
                wait = 1.0 if arrivals.all_in else max(1e-3, requests[arrivals.next].arrival_time - arrivals.now)
                # the timeout lets us notice that the manager has died
                result = manager.get_result(timeout=min(1.0, wait))
                if result is not None and result.is_finished():
                    times = [moment - arrivals.start for moment in result.timestamps]
                    arrivals.note(index_of[result.request_id], list(result.generated_tokens), times)
                elif result is None and not manager.is_running():
                    raise RuntimeError("transformers' continuous batching stopped before all requests were served")
            return arrivals.served()
