"""Phase 11, reference: adapters and images, from admitting a request to multiplying its rows by its adapter.

vLLM: `scheduled_loras` and `_try_schedule_encoder_inputs` in `v1/core/sched/scheduler.py`,
`v1/core/encoder_cache_manager.py`, `generate_block_hash_extra_keys` in `v1/core/kv_cache_utils.py`, and the kernels
`bgmv_shrink` and `bgmv_expand`; batched products over adapters are Punica's (Chen et al., 2023).
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
        self.max_loras = max_loras
        self.adapter_of: dict[str, str] = {}

    def start_step(self) -> None:
        """Forget the adapters of the last step."""
        self.adapter_of = {}

    def is_open(self, request: Request) -> bool:
        """Return whether the request needs no adapter, or the step still has a slot for its adapter."""
        adapters = set(self.adapter_of.values())
        return request.adapter_id is None or request.adapter_id in adapters or len(adapters) < self.max_loras

    def limit(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        """Return `num_new_tokens`, or 0 if this step has no slot for the request's adapter, even if the request is
        running."""
        return num_new_tokens if self.is_open(request) else 0

    def slots_allocated(self, request: Request) -> None:
        """Add the request and its adapter to the plan."""
        if request.adapter_id is not None:
            self.adapter_of[request.request_id] = request.adapter_id

    def freed(self, request: Request) -> None:
        """Remove the request from the plan; its adapter stays if another planned request uses it."""
        self.adapter_of.pop(request.request_id, None)


class EncoderCacheManager:
    """The cached encodings, up to `cache_size` embeddings in total, and the requests that need them; see
    `EncoderCache`."""

    def __init__(self, cache_size: int) -> None:
        self.num_free_slots = cache_size
        self.cached: dict[str, set[str]] = {}
        self.freeable: dict[str, int] = {}
        self.freed: list[str] = []

    def refer(self, request: Request, image: MultiModalFeatureSpec) -> bool:
        """Count the request as a user of the image's encoding; return False if there is no encoding."""
        if image.identifier not in self.cached:
            return False
        self.freeable.pop(image.identifier, None)
        self.cached[image.identifier].add(request.request_id)
        return True

    def make_room(self, num_embeds: int) -> bool:
        """Evict the encodings that have been unused longest until `num_embeds` more embeddings fit; if they cannot fit,
        evict nothing."""
        if num_embeds > self.num_free_slots + sum(self.freeable.values()):
            return False
        while num_embeds > self.num_free_slots:
            oldest = next(iter(self.freeable))
            self.num_free_slots += self.freeable.pop(oldest)
            del self.cached[oldest]
            self.freed.append(oldest)
        return True

    def allocate(self, request: Request, image: MultiModalFeatureSpec) -> None:
        """Reserve room for an encoding that this step computes, with the request as its user."""
        self.cached[image.identifier] = {request.request_id}
        self.num_free_slots -= image.length

    def release(self, request: Request, image: MultiModalFeatureSpec) -> None:
        """Remove the request from the encoding's users. An encoding without users becomes freeable, not free.

        Nothing happens if there is no encoding, or if the request does not use it.
        """
        users = self.cached.get(image.identifier, set())
        if request.request_id in users:
            users.remove(request.request_id)
            if not users:
                self.freeable[image.identifier] = image.length


def schedule_encoder_inputs(
    request: Request, num_computed_tokens: int, num_new_tokens: int, budget: int, cache: EncoderCache
) -> tuple[list[int], int]:
    """Return the images to encode, as indices into `request.mm_features`, and how many of the new tokens to compute.

    At most `budget` embeddings are encoded. Evicts encodings to make room, but allocates nothing.
    """
    to_encode: list[int] = []
    contents: set[str] = set()
    num_embeds = 0
    for index, image in enumerate(request.mm_features):
        if image.offset >= num_computed_tokens + num_new_tokens:
            break
        if image.end <= num_computed_tokens or image.identifier in contents or cache.refer(request, image):
            continue
        # An encoder attends to the whole image at once, so an image is never encoded in parts; the chunk is shortened
        # instead.
        if num_embeds + image.length > budget or not cache.make_room(num_embeds + image.length):
            return to_encode, max(0, image.offset - num_computed_tokens)
        num_embeds += image.length
        contents.add(image.identifier)
        to_encode.append(index)
    return to_encode, num_new_tokens


def generate_block_hash_extra_keys(
    request: Request, start_token_idx: int, end_token_idx: int
) -> tuple[str | None, ...]:
    """Return the extra keys of the block that contains these tokens: salt, adapter, then the images."""
    owner = (request.cache_salt, request.adapter_id) if start_token_idx == 0 else (None, None)
    images = (one for one in request.mm_features if one.offset < end_token_idx and start_token_idx < one.end)
    return (*owner, *(image.identifier for image in images))


def bgmv(output: "Tensor", inputs: "Tensor", lora_a: "Tensor", lora_b: "Tensor", indices: "Tensor") -> None:
    """Multiply each row of `inputs` [T, in] by its adapter, and add the product to `output` [T, out] in place.

    Row t uses adapter `indices[t]` of `lora_a` [N, r, in] and `lora_b` [N, out, r], which already includes the factor
    alpha / r. An index of -1 means no adapter: that row of `output` does not change.
    """
    rows = (indices >= 0).nonzero().flatten()
    adapters = indices[rows]
    shrunk = lora_a[adapters] @ inputs[rows, :, None]
    output[rows] += (lora_b[adapters] @ shrunk)[:, :, 0]
