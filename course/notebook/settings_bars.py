"""What the settings of the dial and of the calculator give, side by side."""

from collections.abc import Mapping

from course.notebook.charts import Charts, Measure, bar_charts, count
from course.notebook.notice import Notice
from course.views.calculator import Setup, capacity_of
from course.views.calculator.capacity import Capacity
from course.views.chunking_dial import Deployment, Setting, try_setting
from course.views.chunking_dial.trial import Trial
from course.views.figures import memory, seconds

TRIAL: list[Measure[Trial]] = [
    Measure("ITL, p99", lambda trial: trial.inter_token_latencies[99.0], seconds),
    Measure("TTFT, p99", lambda trial: trial.times_to_first_token[99.0], seconds),
    Measure("output tokens per second", lambda trial: trial.output_tokens_per_second, count),
]
CAPACITY: list[Measure[Capacity]] = [
    Measure("requests that run", lambda capacity: capacity.batch_size, count),
    Measure("requests that fit", lambda capacity: capacity.concurrency, count),
    Measure("saturation batch", lambda capacity: capacity.saturation_batch, count),
    Measure("K and V of a token", lambda capacity: capacity.kv_bytes_per_token, memory),
]


def trial_bars(settings: Mapping[str, Setting]) -> Charts | Notice:
    """Return latencies and output of the dial's requests under each setting."""
    return bar_charts({name: try_setting(setting, Deployment()) for name, setting in settings.items()}, TRIAL)


def capacity_bars(setups: Mapping[str, Setup]) -> Charts | Notice:
    """Return how many requests run in each of the calculator's setups, and from which batch on arithmetic limits."""
    return bar_charts({name: capacity_of(setup) for name, setup in setups.items()}, CAPACITY)
