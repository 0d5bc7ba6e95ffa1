"""Phase 11: adapters and images, from admitting a request to multiplying its rows by its adapter.

The scheduler calls the gate, the encoder cache and the first two functions; the runner calls `bgmv` for each linear
layer.
"""

from typing import TYPE_CHECKING

from mini_vllm.core.request import MultiModalFeatureSpec, Request
from mini_vllm.electives.gates.admission import EncoderCache
from mini_vllm.electives.gates.gate import Gate

if TYPE_CHECKING:
    from torch import Tensor


class AdapterGate(Gate):
    """Allows at most `max_loras` different adapters in one step."""

    def __init__(self, max_loras: int) -> None:
        raise NotImplementedError("Phase 11, task 1: store the arguments")

    def start_step(self) -> None:
        """Forget the adapters of the last step."""
        raise NotImplementedError("Phase 11, task 1: start_step")

    def is_open(self, request: Request) -> bool:
        """Return whether the request needs no adapter, or the step still has a slot for its adapter."""
        raise NotImplementedError("Phase 11, task 1: is_open")

    def limit(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        """Return `num_new_tokens`, or 0 if this step has no slot for the request's adapter, even if the request is
        running."""
        raise NotImplementedError("Phase 11, task 1: limit")

    def slots_allocated(self, request: Request) -> None:
        """Add the request and its adapter to the plan."""
        raise NotImplementedError("Phase 11, task 1: slots_allocated")

    def freed(self, request: Request) -> None:
        """Remove the request from the plan; its adapter stays if another planned request uses it."""
        raise NotImplementedError("Phase 11, task 1: freed")


class EncoderCacheManager:
    """The cached encodings, up to `cache_size` embeddings in total, and the requests that need them; see
    `EncoderCache`."""

    num_free_slots: int
    cached: dict[str, set[str]]
    freeable: dict[str, int]
    freed: list[str]

    def __init__(self, cache_size: int) -> None:
        raise NotImplementedError("Phase 11, task 2: set the attributes of `EncoderCache`")

    def refer(self, request: Request, image: MultiModalFeatureSpec) -> bool:
        """Count the request as a user of the image's encoding; return False if there is no encoding."""
        raise NotImplementedError("Phase 11, task 2: refer")

    def make_room(self, num_embeds: int) -> bool:
        """Evict the encodings that have been unused longest until `num_embeds` more embeddings fit; if they cannot fit,
        evict nothing."""
        raise NotImplementedError("Phase 11, task 2: make_room")

    def allocate(self, request: Request, image: MultiModalFeatureSpec) -> None:
        """Reserve room for an encoding that this step computes, with the request as its user."""
        raise NotImplementedError("Phase 11, task 2: allocate")

    def release(self, request: Request, image: MultiModalFeatureSpec) -> None:
        """Remove the request from the encoding's users. An encoding without users becomes freeable, not free.

        Nothing happens if there is no encoding, or if the request does not use it.
        """
        raise NotImplementedError("Phase 11, task 2: release")


def schedule_encoder_inputs(
    request: Request, num_computed_tokens: int, num_new_tokens: int, budget: int, cache: EncoderCache
) -> tuple[list[int], int]:
    """Return the images to encode, as indices into `request.mm_features`, and how many of the new tokens to compute.

    At most `budget` embeddings are encoded. Evicts encodings to make room, but allocates nothing.
    """
    raise NotImplementedError("Phase 11, task 3: schedule_encoder_inputs")


def generate_block_hash_extra_keys(
    request: Request, start_token_idx: int, end_token_idx: int
) -> tuple[str | None, ...]:
    """Return the extra keys of the block that contains these tokens: salt, adapter, then the images."""
    raise NotImplementedError("Phase 11, task 4: generate_block_hash_extra_keys")


def bgmv(output: "Tensor", inputs: "Tensor", lora_a: "Tensor", lora_b: "Tensor", indices: "Tensor") -> None:
    """Multiply each row of `inputs` [T, in] by its adapter, and add the product to `output` [T, out] in place.

    Row t uses adapter `indices[t]` of `lora_a` [N, r, in] and `lora_b` [N, out, r], which already includes the factor
    alpha / r. An index of -1 means no adapter: that row of `output` does not change.
    """
    raise NotImplementedError("Phase 11, task 5: bgmv")
