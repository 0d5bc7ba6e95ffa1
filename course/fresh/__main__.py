"""The new process of `process.py`. While it waits it imports what the calls of the panels need, or those of a model."""

import sys

import course.fresh.jobs
import course.views.policy_comparison.comparison  # noqa: F401
from course.fresh.process import WITH_MODEL, serve_call

if WITH_MODEL in sys.argv:
    import mini_vllm.llm
    import mini_vllm.runner.loading  # noqa: F401

serve_call()
