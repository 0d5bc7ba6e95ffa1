"""The new process of `process.py`. While it waits it imports what the calls of the panels need."""

import course.fresh.jobs
import course.views.policy_comparison.comparison  # noqa: F401
from course.fresh.process import serve_call

serve_call()
