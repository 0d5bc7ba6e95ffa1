"""The gate for images, which stores phase 11's decision until a request has its slots."""

from mini_vllm.core.request import Request
from mini_vllm.electives.gates.admission import EncoderCache, ScheduleEncoderInputs
from mini_vllm.electives.gates.gate import Gate


class EncoderGate(Gate):
    """Limits a step to computing at most `budget` embeddings. (vLLM: `Scheduler._try_schedule_encoder_inputs`.)

    `scheduled` maps request ids to the indices of the images that this step encodes. With `leaves_in_update`, images
    are released when a step's output has arrived, and a request that gets no blocks releases its images immediately.
    """

    reason = "images"

    def __init__(
        self,
        budget: int,
        cache: EncoderCache,
        schedule_encoder_inputs: ScheduleEncoderInputs,
        *,
        leaves_in_update: bool = False,
    ) -> None:
        self.leaves_in_update = leaves_in_update
        self.budget = budget
        self.cache = cache
        self.schedule_encoder_inputs = schedule_encoder_inputs
        self.scheduled: dict[str, list[int]] = {}
        self._budget_left = budget
        self._wanted: dict[str, list[int]] = {}

    def start_step(self) -> None:
        self.scheduled, self._wanted, self._budget_left = {}, {}, self.budget

    def may_limit(self, request: Request) -> bool:
        return bool(request.mm_features)

    def limit(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        if not request.mm_features:
            return num_new_tokens
        self._wanted[request.request_id], num_new_tokens = self.schedule_encoder_inputs(
            request, num_computed_tokens, num_new_tokens, self._budget_left, self.cache
        )
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
        if not self.leaves_in_update:
            self._release(request, request.num_computed_tokens)

    def processed(self, request: Request) -> None:
        if self.leaves_in_update:
            self._release(request, request.num_computed_tokens - request.num_output_placeholders)

    def refused(self, request: Request) -> None:
        if self.leaves_in_update:
            self._release(request, request.num_prompt_tokens)

    def _release(self, request: Request, num_tokens: int) -> None:
        for image in request.mm_features:
            if image.end <= num_tokens:  # the K and V of its tokens are cached, so the image is never read again
                self.cache.release(request, image)

    def give_up(self, request: Request) -> bool:
        held = [one for one in request.mm_features if request.request_id in self.cache.cached.get(one.identifier, ())]
        for image in held:  # a later step finds the encoding still cached, or encodes the image again
            self.cache.release(request, image)
        return bool(held)

    def take_freed(self) -> list[str]:
        """Return the identifiers of the encodings evicted since the last call, in order.

        With `leaves_in_update`, encodings that are cached again are omitted, because the worker's copy is still useful.
        """
        freed, self.cache.freed = self.cache.freed, []
        return [content for content in freed if not (self.leaves_in_update and content in self.cache.cached)]

    def _num_embeds(self, request: Request, indices: list[int]) -> int:
        return sum(request.mm_features[index].length for index in indices)
