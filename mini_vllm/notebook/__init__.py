"""What the cells of the notebooks call: `Lab` runs the learner's engine anew each time, and says what is missing."""

from mini_vllm.notebook.figures import figures
from mini_vllm.notebook.lab import Lab
from mini_vllm.notebook.notice import Notice, show
from mini_vllm.notebook.pictures import answers, compare, same_answers, watch, watch_blocks
from mini_vllm.notebook.told import tell

__all__ = [
    "Lab",
    "Notice",
    "answers",
    "compare",
    "figures",
    "same_answers",
    "show",
    "tell",
    "watch",
    "watch_blocks",
]
