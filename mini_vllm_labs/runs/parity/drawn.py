"""Draws random scenarios and runs them on the reference, in the format of the recorded traces.

The kind `small` needs at most one capability of `PLAIN`, for engines that have few capabilities. The kind `mixed` needs
several of these capabilities.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from mini_vllm.assembly.lineup import Lineup, parse_lineup
from mini_vllm_labs.conformance.scenarios import DRAWN, PLAIN, RecordedScenario
from mini_vllm_labs.runs.parity.replay import ScenarioReplay, as_json
from mini_vllm_labs.runs.parity.scenario import Scenario

EACH, MIXED = 20, 100
MAX_LENGTH, MAX_STEPS, MAX_TRIES = 64, 300, 2000
EOS, STOP = 2, 77  # all other output token ids are at least 100
SHOWS = "drawn with seed {} and decided by the course's engine, not recorded from vLLM"
Line = dict[str, Any]


def drawn_lines(seed: int, releases: Iterable[str], kinds: Iterable[str] = DRAWN) -> Iterator[Line]:
    """Yield a seed's scenarios, which are the same every time."""
    for release in releases:
        for kind in kinds:
            if kind == "small":
                wanted = [[need] if need else [] for need in ("", *PLAIN) for _ in range(EACH)]
            else:
                choose = Random(f"{seed} {release}")
                wanted = [choose.sample(PLAIN, choose.randint(2, 6)) for _ in range(MIXED)]
            for number, needs in enumerate(wanted):
                yield drawn_line(f"{kind}-{release}-{seed}-{number:03}", seed, release, kind, frozenset(needs))


def drawn_line(name: str, seed: int, release: str, kind: str, needs: frozenset[str]) -> Line:
    """Return the first drawn scenario that needs `needs` (if mixed, two of them) and shows no known defect."""
    random = Random(name)
    lineup = parse_lineup("solution:1-5" if release == "0.13.0" else "solution:1-5,solution:14")
    for _ in range(MAX_TRIES):
        line = draw(random, needs)
        line["config"] |= {} if release == "0.13.0" else {"version": release}
        line |= {"name": name, "kind": kind, "shows": SHOWS.format(seed), "defects": [], "max_steps": MAX_STEPS}
        play(line, lineup)
        found = RecordedScenario(line).needs
        fits = found == needs if kind == "small" else found <= needs and len(found) > 1
        if fits and not may_show_a_defect(line):
            return line
    raise ValueError(f"none of the {MAX_TRIES} scenarios needs only {', '.join(sorted(needs))}")


def draw(random: Random, needs: frozenset[str]) -> Line:
    """Return settings, requests and events that probably need the named capabilities."""
    block_size, names = random.choice((4, 8)), [f"r{number}" for number in range(random.randint(3, 8))]
    requests, events = dict[str, Line](), list[Line]()
    at = 0
    for name in names:
        at += random.choice((0, 0, 1, 3, 9))
        shared = [{"seed": random.choice("fg"), "len": random.randint(4, 24)}] if "prefix_cache" in needs else []
        prompt: list[Line] = [*shared, {"seed": name, "len": random.randint(1, 30)}]
        length, max_tokens = sum(part["len"] for part in prompt), random.randint(1, 10)
        stops = [token for need, token in (("eos", EOS), ("stop_tokens", STOP)) if need in needs]
        requests[name] = {
            "prompt": prompt,
            "prompt_len": length,
            "max_tokens": max_tokens,
            "priority": random.randint(0, 2) if "priority" in needs else 0,
            "arrival_time": float(at),
            "ignore_eos": False,
            "stop_token_ids": [STOP] if STOP in stops else [],
            "planned": [[random.randrange(max_tokens), random.choice(stops)]]
            if stops and random.random() < 0.5
            else [],
        }
        events.append({"step": at, "add": name})
        for need, when in (("abort", {}), ("abort_before_update", {"when": "before_update"})):
            if need in needs and random.random() < 0.3:
                events.append({"step": at + random.randint(0, 8), "abort": name} | when)
    sizes = [-(-(one["prompt_len"] + one["max_tokens"]) // block_size) for one in requests.values()]
    whole = "whole_prompts" in needs
    config = {
        "max_num_seqs": random.randint(2, 6),
        "max_num_batched_tokens": random.randint(MAX_LENGTH if whole else 8, 2 * MAX_LENGTH),
        "long_prefill_token_threshold": random.randint(3, 12) if "chunk_limit" in needs else 0,
        "max_model_len": MAX_LENGTH,
        "enable_chunked_prefill": not whole,
        "enable_prefix_caching": "prefix_cache" in needs,
        "policy": "priority" if "priority" in needs else "fcfs",
        "block_size": block_size,
        "num_gpu_blocks": 1 + (max(sizes) + random.randint(0, 3) if "preemption" in needs else sum(sizes)),
        "async_scheduling": False,
        "spec": None,
        "eos_token_id": EOS,
    }
    return {"config": config, "requests": requests, "events": sorted(events, key=lambda one: one["step"])}


def play(line: Line, lineup: Lineup) -> None:
    """Run a scenario to its end and add the resulting decisions to it."""
    steps: list[Any] = []
    line["trace"] = {"steps": steps, "usable_blocks": line["config"]["num_gpu_blocks"] - 1}
    replay, last = ScenarioReplay(Scenario(line), lineup), line["events"][-1]["step"]
    while len(steps) < MAX_STEPS and not (len(steps) > last and replay.is_drained):
        steps.append(as_json(replay.run_step(len(steps))))
    line["trace"]["requests"] = replay.summary()


def may_show_a_defect(line: Line) -> bool:
    """Whether vLLM might decide differently because of `stale_blocks` or `unreserved_prompts`, defects that our engine
    does not have.

    The first defect occurs only if a victim was already scheduled in the same step; the second, only if a prompt is not
    finished in the step that admits it.
    """
    steps = line["trace"]["steps"]
    if any(num_tokens for step in steps for _, _, num_tokens in step["preempted"]):
        return bool(line["config"]["enable_prefix_caching"])
    is_tight = any(step["preempted"] for step in steps) and "version" in line["config"]
    admitted = [(one["id"], step) for step in steps for one in step["scheduled"] if one["kind"] != "running"]
    return is_tight and any(request_id not in step["sampled"] for request_id, step in admitted)
