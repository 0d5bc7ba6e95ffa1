"""Preempt: other order after the freeing."""

from mini_vllm.core.request import RequestStatus


def preempt(request, waiting, kv):
    """Free the blocks of a request and return it to the waiting queue. Its tokens stay, their K and V are lost."""
    kv.free(request, request.num_computed_tokens)
    waiting.prepend_request(request)
    request.num_preemptions = request.num_preemptions + 1
    request.num_computed_tokens = 0
    request.status = RequestStatus.PREEMPTED
