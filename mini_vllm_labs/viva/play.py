"""Runs given starters, original or changed, in a separate process."""

import importlib
import json
import linecache
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Rational
from types import ModuleType
from typing import Any

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.runs.sandbox.channel import Message, take_stdio
from mini_vllm_labs.runs.sandbox.errors import OutOfTime
from mini_vllm_labs.runs.sandbox.limits import Limits, limit_resources
from mini_vllm_labs.runs.sandbox.time_limit import limited_calls
from mini_vllm_labs.runs.starter_status import lab_folder, starter_path
from mini_vllm_labs.runs.workloads.fallbacks import make_possible
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, Run, make_workload
from mini_vllm_labs.viva.watching import LineWatch

MAX_STEPS = 200
SHOWN = ("max_num_seqs", "max_num_batched_tokens", "num_gpu_blocks", "block_size", "long_prefill_token_threshold")
MAX_BYTES = 2**26
CALL_SECONDS = 0.5
MEMORY_BYTES = 2 * 2**30


def play(job: Mapping[str, Any]) -> Message:
    """Return a run's steps and settings, observations from the files if `watched`, and the reason if the run ended
    early.

    A job contains `texts` (phases mapped to files), `lineup`, changed engine `settings`, `seed` and `requests`.
    """
    watch, steps, problem, settings = LineWatch(), list[Any](), "", dict[str, Any]()
    try:
        install({int(phase): text for phase, text in job["texts"].items()})
        lineup = parse_lineup(job["lineup"])
        config, _ = make_possible(SMALL_POOL, lineup)
        config = replace(config, **job["settings"])
        settings = {name: getattr(config, name) for name in SHOWN}
        run = Run(make_workload(job["seed"], job["requests"]), config, lineup)
        steps = run.engine.recorder.steps
        with watch if job["watched"] else limited_calls(CALL_SECONDS):
            while not run.finished and len(steps) < MAX_STEPS:
                watch.step = len(steps)
                run.step()
        problem = "" if run.finished else f"it has not ended after {MAX_STEPS} steps"
    except StalledError as error:
        problem = f"no request can go on: {error}"
    except (Exception, SystemExit, OutOfTime) as error:
        problem = f"{type(error).__name__}: {error}"
    as_json = json.loads(json.dumps(steps, default=plain))
    return {"steps": as_json, "problem": problem, "seen": watch.seen, "settings": settings}


def plain(value: object) -> int | str | list[object]:
    """Convert a whole number of any type, or a numpy array, to a built-in type, and anything else to text."""
    if isinstance(value, Iterable):
        return list(value)
    return int(value.numerator) if isinstance(value, Rational) and value.denominator == 1 else str(value)


def install(texts: Mapping[int, str]) -> None:
    """Make the starters' modules from these texts, as if their lines were in the course's own files.

    A file can import the starters of earlier phases, but not of later ones.
    """
    modules = dict[int, ModuleType]()
    for phase, text in texts.items():
        name, path = f"labs.{lab_folder(phase)}.starter", str(starter_path(phase))
        modules[phase] = module = ModuleType(name)
        module.__file__ = path
        sys.modules[name] = module
        vars(importlib.import_module(f"labs.{lab_folder(phase)}"))["starter"] = module
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    for phase, module in modules.items():
        exec(compile(texts[phase], str(module.__file__), "exec"), vars(module))


def serve() -> None:
    """Handle jobs until the other side closes the channel."""
    channel = take_stdio(MAX_BYTES)
    limit_resources(Limits(memory_bytes=MEMORY_BYTES))
    while True:
        channel.send(play(channel.receive()))
