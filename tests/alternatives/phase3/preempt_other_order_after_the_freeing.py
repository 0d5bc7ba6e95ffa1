"""Preempt: other order after the freeing."""

from mini_vllm.core.request import RequestStatus


def preempt(request, waiting, kv):
    """Take the blocks of a request and send it back to wait. Its tokens stay, their K and V go."""
    kv.free(request, request.num_computed_tokens)
    waiting.prepend_request(request)
    request.num_preemptions = request.num_preemptions + 1
    request.num_computed_tokens = 0
    request.status = RequestStatus.PREEMPTED
