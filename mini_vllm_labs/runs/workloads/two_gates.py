"""A full-size run with two gates: first compute limits admission, then memory does."""

from mini_vllm.config import EngineConfig
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

TWO_GATES = EngineConfig(
    max_num_seqs=1024,
    max_num_batched_tokens=8192,
    max_model_len=1024,
    num_gpu_blocks=10_001,
    enable_prefix_caching=False,
)
STARTS = [0] * 4 + [1] * 46 + [3] * 950


def two_gates() -> list[TimedRequest]:
    """Return 1,000 requests with 200 prompt and 50 output tokens. They arrive in step 0 (4 of them), step 1 (46) and
    step 3 (950)."""
    return [TimedRequest(start, str(index), [index] * 200, max_tokens=50) for index, start in enumerate(STARTS)]
