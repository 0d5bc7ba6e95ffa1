"""The seam of phase 11, which makes the decisions about adapters and images."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from mini_vllm.core.request import MultiModalFeatureSpec, Request
from mini_vllm.electives.gates.gate import Gate


class EncoderCache(Protocol):
    """Tracks encodings by content. (vLLM: `v1/core/encoder_cache_manager.py`.)

    `cached` maps each encoding's identifier to the ids of the requests that use it. An encoding without users stays
    cached until its space is needed. `freeable` holds the lengths of these encodings in the order in which they would
    be evicted. `num_free_slots` counts the embeddings that fit without evicting anything. `freed` lists the identifiers
    of evicted encodings in order; the engine empties it.
    """

    num_free_slots: int
    cached: dict[str, set[str]]
    freeable: dict[str, int]
    freed: list[str]

    def refer(self, request: Request, image: MultiModalFeatureSpec) -> bool: ...
    def make_room(self, num_embeds: int) -> bool: ...
    def allocate(self, request: Request, image: MultiModalFeatureSpec) -> None: ...
    def release(self, request: Request, image: MultiModalFeatureSpec) -> None: ...


class ScheduleEncoderInputs(Protocol):
    """Chooses the images that a request encodes in a step, and how many new tokens the request computes."""

    def __call__(
        self, request: Request, num_computed_tokens: int, num_new_tokens: int, budget: int, cache: EncoderCache
    ) -> tuple[list[int], int]: ...


ExtraKeys = Callable[[Request, int, int], tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
class AdmissionFunctions:
    """Phase 11 as the scheduler and the runner use it.

    `make_adapter_gate` takes `max_loras`; `make_encoder_cache` takes the number of embeddings. `bgmv` receives the
    tensors output [T, out], inputs [T, in], lora_a [N, r, in], lora_b [N, out, r] and indices [T]. Only the runner
    imports torch.
    """

    make_adapter_gate: Callable[[int], Gate]
    make_encoder_cache: Callable[[int], EncoderCache]
    schedule_encoder_inputs: ScheduleEncoderInputs
    extra_keys: ExtraKeys
    bgmv: Callable[[Any, Any, Any, Any, Any], None]
