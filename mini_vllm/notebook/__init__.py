"""What the cells of the notebooks call: `Lab` runs the learner's engine anew each time, and says what is missing."""

from mini_vllm.notebook.lab import Lab
from mini_vllm.notebook.notice import Notice, show

__all__ = ["Lab", "Notice", "show"]
