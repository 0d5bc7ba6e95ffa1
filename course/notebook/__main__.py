"""The new process of `fresh.py`."""

from course.notebook.fresh import serve_call

serve_call()
