"""Frees only if the request holds a block, and reads the table before it does so."""

from mini_vllm.core.interfaces import KVCacheManager, RequestQueue
from mini_vllm.core.request import Request


def preempt(request: Request, waiting: RequestQueue, kv: KVCacheManager) -> None:
    if kv.block_ids(request.request_id):
        kv.free(request, request.num_computed_tokens)
    request.preempt()
    waiting.prepend_request(request)
