"""What the cells of the notebooks call: `Lab` runs the learner's engine anew each time, and says what is missing."""

from mini_vllm.notebook.lab import Lab
from mini_vllm.notebook.notice import Notice, show
from mini_vllm.notebook.pictures import compare, same_answers, watch
from mini_vllm.notebook.told import tell

__all__ = ["Lab", "Notice", "compare", "same_answers", "show", "tell", "watch"]
