"""What the cells of the notebooks call: `Lab` runs the learner's engine anew each time, and says what is missing."""

from mini_vllm.notebook.figures import figures
from mini_vllm.notebook.lab import Lab
from mini_vllm.notebook.measured import measure
from mini_vllm.notebook.notice import Notice, show
from mini_vllm.notebook.panels import bench, engine_panel
from mini_vllm.notebook.pictures import answers, compare, recorded_workload, same_answers, watch, watch_blocks
from mini_vllm.notebook.told import tell, tell_each

__all__ = [
    "Lab",
    "Notice",
    "answers",
    "bench",
    "compare",
    "engine_panel",
    "figures",
    "measure",
    "recorded_workload",
    "same_answers",
    "show",
    "tell",
    "tell_each",
    "watch",
    "watch_blocks",
]
