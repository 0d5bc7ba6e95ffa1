"""Functions for the cells of the notebooks: `Lab` runs the learner's engine afresh and reports what is missing."""

from course.notebook.charts import figures, request_bars, waits
from course.notebook.contests import goodput_bars, slo_bars, user_bars, wait_of
from course.notebook.draft_costs import draft_costs
from course.notebook.lab import Lab
from course.notebook.measurements import measure
from course.notebook.notice import Notice, show
from course.notebook.panels import bench, engine_panel
from course.notebook.pictures import answers, compare, same_answers, watch, watch_blocks
from course.notebook.predictions import Predictions
from course.notebook.run_facts import hit_in
from course.notebook.serving import seat_bars, serve, served_bars, workload_bars
from course.notebook.settings_bars import capacity_bars, trial_bars
from course.notebook.tokens_ahead import draft_figures, draw_lanes, watch_drafts, watch_lanes
from course.notebook.words import Words

__all__ = [
    "Lab",
    "Notice",
    "Predictions",
    "Words",
    "answers",
    "bench",
    "capacity_bars",
    "compare",
    "draft_costs",
    "draft_figures",
    "draw_lanes",
    "engine_panel",
    "figures",
    "goodput_bars",
    "hit_in",
    "measure",
    "request_bars",
    "same_answers",
    "seat_bars",
    "serve",
    "served_bars",
    "show",
    "slo_bars",
    "trial_bars",
    "user_bars",
    "wait_of",
    "waits",
    "watch",
    "watch_blocks",
    "watch_drafts",
    "watch_lanes",
    "workload_bars",
]
