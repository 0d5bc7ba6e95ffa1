"""Functions for checking the course map: they compare its table with the handouts."""

import re
from math import ceil

from mini_vllm.environment import GRADE_SECONDS
from mini_vllm_labs.runs.sandbox.time_limit import seconds_for
from mini_vllm_labs.runs.starter_status import starter_path
from tests.handouts.checks.runs import add, engine_with, finish

COMMENT = re.compile(r"<!--.*?-->|^## Sittings\n.*?(?=^## )", re.DOTALL | re.MULTILINE)  # a timetable is not prose
WORDS_A_MINUTE = 150
TASK = re.compile(r"^### Task .*\((?:\d+ to )?(\d+) lines?, (\d+) minutes\)$", re.MULTILINE)


def sizes(phase: int) -> list[int]:
    """Return a phase's line count, and the minutes to read its handout (rounded up to 5) and write its tasks."""
    text = starter_path(phase).with_name("README.md").read_text(encoding="utf-8")
    tasks, num_words = TASK.findall(text), len(COMMENT.sub("", text).split())
    reading = 5 * ceil(num_words / WORDS_A_MINUTE / 5)
    return [sum(int(lines) for lines, _ in tasks), reading, sum(int(minutes) for _, minutes in tasks)]


def life(num_prompt_tokens: int, max_tokens: int) -> list[int]:
    engine = engine_with(max_model_len=64, num_gpu_blocks=8)
    add(engine, "A", list(range(num_prompt_tokens)), max_tokens)
    return [record["total"] for record in finish(engine)]
