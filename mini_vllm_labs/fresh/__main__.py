"""Runs the new process of `process.py`, or the server of `forks.py`.

While it waits, it imports the modules needed by calls that draw panels or run a model.
"""

import sys

import mini_vllm_labs.fresh.jobs
import mini_vllm_labs.pictures.policy_comparison.comparison  # noqa: F401
from mini_vllm_labs.fresh.process import WITH_MODEL, serve_call

if sys.argv[1:]:
    import transformers.models.llama.modeling_llama  # noqa: F401

    import mini_vllm.llm
    import mini_vllm.runner.loading  # noqa: F401

    if sys.argv[1] != WITH_MODEL:
        from mini_vllm_labs.fresh.forks import serve_forks

        serve_forks(int(sys.argv[1]))

serve_call()
