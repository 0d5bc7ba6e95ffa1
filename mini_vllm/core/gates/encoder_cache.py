"""Images: which encodings exist and which requests need them, and where a chunk ends before one that does not fit."""

from mini_vllm.core.gates.gate import Gate
from mini_vllm.core.request import MultiModalFeatureSpec, Request


class EncoderCacheManager:
    """The bookkeeping of encodings by content, over `cache_size` embeddings.

    `cached` maps a content to the requests that refer to it. An encoding without a request stays until its place is
    needed; `freeable` has those, with their lengths, in the order in which they go. `freed` are the contents that have
    gone since `take_freed`. (vLLM: `v1/core/encoder_cache_manager.py`.)
    """

    def __init__(self, cache_size: int) -> None:
        self.num_free_slots = cache_size
        self.cached: dict[str, set[str]] = {}
        self.freeable: dict[str, int] = {}
        self.freed: list[str] = []

    def refer(self, request: Request, image: MultiModalFeatureSpec) -> bool:
        """Count the request as a user of an encoding; False if there is none."""
        if image.identifier not in self.cached:
            return False
        self.freeable.pop(image.identifier, None)
        self.cached[image.identifier].add(request.request_id)
        return True

    def make_room(self, num_embeds: int) -> bool:
        """Evict the encodings that have been without a request longest until `num_embeds` fit; all that or nothing."""
        if num_embeds > self.num_free_slots + sum(self.freeable.values()):
            return False
        while num_embeds > self.num_free_slots:
            oldest = next(iter(self.freeable))
            self.num_free_slots += self.freeable.pop(oldest)
            del self.cached[oldest]
            self.freed.append(oldest)
        return True

    def allocate(self, request: Request, image: MultiModalFeatureSpec) -> None:
        """Take the place of an encoding that this step computes."""
        self.cached[image.identifier] = {request.request_id}
        self.num_free_slots -= image.length

    def release(self, request: Request, image: MultiModalFeatureSpec) -> None:
        """The request needs the encoding no longer. The last one to leave makes it freeable, not free."""
        users = self.cached.get(image.identifier)
        if not users:
            return
        users.discard(request.request_id)
        if not users:
            self.freeable[image.identifier] = image.length

    def take_freed(self) -> list[str]:
        """Return the contents that have gone since the last call, in order."""
        freed, self.freed = self.freed, []
        return freed


class EncoderGate(Gate):
    """At most `budget` embeddings are computed in one step. (vLLM: `Scheduler._try_schedule_encoder_inputs`.)

    `scheduled` has, by request id, the indices of the images that this step encodes.
    """

    def __init__(self, budget: int, cache: EncoderCacheManager) -> None:
        self.budget = budget
        self.cache = cache
        self.scheduled: dict[str, list[int]] = {}
        self._budget_left = budget
        self._wanted: dict[str, list[int]] = {}

    def start_step(self) -> None:
        self.scheduled, self._wanted, self._budget_left = {}, {}, self.budget

    def limit(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        wanted: list[int] = []
        contents: set[str] = set()
        num_embeds = 0
        for index, image in enumerate(request.mm_features):
            if image.offset >= num_computed_tokens + num_new_tokens:
                break
            if image.end <= num_computed_tokens or image.identifier in contents or self.cache.refer(request, image):
                continue
            # An encoder attends to the whole image at once, so an encoding is never cut: the chunk is.
            fits_budget = num_embeds + image.length <= self._budget_left
            if not (fits_budget and self.cache.make_room(num_embeds + image.length)):
                num_new_tokens = max(0, image.offset - num_computed_tokens)
                break
            num_embeds += image.length
            contents.add(image.identifier)
            wanted.append(index)
        self._wanted[request.request_id] = wanted
        return num_new_tokens

    def slots_allocated(self, request: Request) -> None:
        if wanted := self._wanted.pop(request.request_id, None):
            for index in wanted:
                self.cache.allocate(request, request.mm_features[index])
            self._budget_left -= self._num_embeds(request, wanted)
            self.scheduled[request.request_id] = wanted

    def freed(self, request: Request) -> None:
        self._budget_left += self._num_embeds(request, self.scheduled.pop(request.request_id, []))
        for image in request.mm_features:
            self.cache.release(request, image)

    def advanced(self, request: Request) -> None:
        for image in request.mm_features:
            if image.end <= request.num_computed_tokens:  # its K and V are in the cache, so nothing reads it again
                self.cache.release(request, image)

    def _num_embeds(self, request: Request, indices: list[int]) -> int:
        return sum(request.mm_features[index].length for index in indices)
