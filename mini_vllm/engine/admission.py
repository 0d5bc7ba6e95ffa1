"""Checks new requests. A request that could never be served is refused before any state changes."""

from bisect import bisect_right
from collections.abc import Callable, Collection
from itertools import pairwise

from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.engine.errors import ContextLengthError, QueueFullError


def require_acceptable(
    request: Request, config: EngineConfig, scheduler: Scheduler, vocab_size: int, adapters: Collection[str] | None
) -> None:
    """Raise `ValueError` if this engine can never serve the request, or `QueueFullError` if the queue is full.

    `adapters` are the engine's adapters; None means the fake model, which accepts any adapter and image.
    """
    require_types(request)
    require_adapter(request.adapter_id, adapters)
    require_images(request, config, has_fake_model=adapters is None)
    require_servable(request, scheduler.max_model_len, vocab_size, scheduler.kv, scheduler.max_held_blocks)
    require_place(config.max_num_waiting, len(scheduler.waiting))


def require_types(request: Request) -> None:
    """Raise `ValueError` for a value of the wrong type, which would make a whole step fail when compared or hashed."""
    token_ids = request.prompt_token_ids
    if strange := [token_id for token_id in token_ids if type(token_id) is not int]:
        raise ValueError(f"a prompt must be text or a list of integers, got the token id {strange[0]!r}")
    if not isinstance(request.priority, int):
        raise ValueError(f"priority must be an integer, got {request.priority!r}")
    for name in ("request_id", "cache_salt", "adapter_id", "tenant"):
        if not isinstance(value := getattr(request, name), str) and (value is not None or name == "request_id"):
            raise ValueError(f"{name} must be text, got {value!r}")


def require_servable(
    request: Request,
    max_model_len: int,
    vocab_size: int,
    kv: KVCacheManager,
    max_held_blocks: Callable[[int], int],
) -> None:
    """Raise `ValueError`, giving the reason and the numbers, if the model or the pool is too small for the request.

    `max_held_blocks` maps a length in tokens to the maximum number of blocks that a request holds at once while it
    grows to that length.
    """
    if not request.prompt_token_ids:
        raise ValueError("the prompt is empty: it must have at least 1 token")
    if request.num_prompt_tokens > max_model_len - 1:
        raise ContextLengthError(
            f"the prompt has {request.num_prompt_tokens} tokens, but it may have at most max_model_len - 1 = "
            f"{max_model_len - 1} to leave room for an answer",
            request.num_prompt_tokens,
            request.sampling_params.max_tokens,
            max_model_len,
        )
    unknown = [token_id for token_id in request.prompt_token_ids if not 0 <= token_id < vocab_size]
    if unknown:
        raise ValueError(f"token id {unknown[0]} is not in the vocabulary, which is 0 to {vocab_size - 1}")
    biased = [token_id for token_id in request.sampling_params.logit_bias or () if not 0 <= token_id < vocab_size]
    if biased:
        raise ValueError(f"logit_bias contains token id {biased[0]}, but the vocabulary is 0 to {vocab_size - 1}")
    # The last token is sampled but never computed, so it needs no slot.
    num_needed = max_held_blocks(request.max_total_tokens(max_model_len) - 1)
    if num_needed > kv.num_usable_blocks:
        raise ContextLengthError(
            f"the request may need {num_needed} blocks ({request.num_prompt_tokens} prompt tokens, max_tokens "
            f"{request.sampling_params.max_tokens}), but the whole cache has {kv.num_usable_blocks} blocks "
            f"of {kv.block_size} tokens: it would wait forever",
            request.num_prompt_tokens,
            request.sampling_params.max_tokens,
            longest_request(max_model_len, kv, max_held_blocks),
        )


def longest_request(max_model_len: int, kv: KVCacheManager, max_held_blocks: Callable[[int], int]) -> int:
    """Return the maximum number of tokens, prompt included, that fits both the model and the whole cache."""
    # The last token is never computed, so the result is one more than the largest number of tokens whose blocks fit.
    return bisect_right(range(max_model_len), kv.num_usable_blocks, key=max_held_blocks)


def require_adapter(adapter_id: str | None, known: Collection[str] | None) -> None:
    """Raise `ValueError` for an adapter that is not in `known`; `known=None` accepts any."""
    if adapter_id is not None and known is not None and adapter_id not in known:
        raise ValueError(f"the adapter must be one of {', '.join(sorted(known)) or 'none'}; got {adapter_id!r}")


def require_images(request: Request, config: EngineConfig, *, has_fake_model: bool) -> None:
    """Raise `ValueError` if a request's images overlap or are out of order, or if one could never be encoded."""
    images = request.mm_features
    if images and not has_fake_model:
        raise ValueError(
            "mm_features needs the fake model, because the engine cannot serve a model with an encoder yet"
        )
    if images and (config.max_num_encoder_input_tokens is None or config.encoder_cache_size is None):
        raise ValueError("mm_features needs max_num_encoder_input_tokens and encoder_cache_size, which are not set")
    for image in images:
        largest = min(config.max_num_encoder_input_tokens or 0, config.encoder_cache_size or 0)
        if not 1 <= image.length <= largest:
            raise ValueError(
                f"image {image.identifier!r} must have 1 to {largest} embeddings (the limit is the smaller of "
                f"max_num_encoder_input_tokens and encoder_cache_size); got {image.length}"
            )
    edges = [0, *(edge for image in images for edge in (image.offset, image.end)), request.num_prompt_tokens]
    if any(before > after for before, after in pairwise(edges)):
        raise ValueError(
            f"image positions must be in order and within the prompt's {edges[-1]} tokens; got {edges[1:-1]}"
        )


def require_place(max_num_waiting: int | None, num_waiting: int) -> None:
    """Raise `QueueFullError` if the waiting queue is bounded and full."""
    if max_num_waiting is not None and num_waiting >= max_num_waiting:
        raise QueueFullError(
            f"the waiting queue is full: {num_waiting} requests are waiting and max_num_waiting is {max_num_waiting}; "
            "add the request again after a step has admitted some"
        )
