"""Functions for the cells of the notebooks: `Lab` runs the learner's engine afresh and reports what is missing."""

from course.notebook.figures import figures
from course.notebook.lab import Lab
from course.notebook.measurements import measure
from course.notebook.notice import Notice, show
from course.notebook.panels import bench, engine_panel
from course.notebook.pictures import answers, compare, same_answers, watch, watch_blocks
from course.notebook.predictions import Predictions
from course.notebook.run_facts import hit_in
from course.notebook.step_text import as_text, each_as_text

__all__ = [
    "Lab",
    "Notice",
    "Predictions",
    "answers",
    "as_text",
    "bench",
    "compare",
    "each_as_text",
    "engine_panel",
    "figures",
    "hit_in",
    "measure",
    "same_answers",
    "show",
    "watch",
    "watch_blocks",
]
