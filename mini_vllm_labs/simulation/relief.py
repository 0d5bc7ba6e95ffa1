"""Finds what limited a simulated load, and the setting that would shorten the longest waits."""

from collections import defaultdict
from collections.abc import Mapping

from mini_vllm.engine.reasons import REASONS
from mini_vllm_labs.simulation.experiment import Experiment

BLOCKS = ("blocks", "reservation", "guard", "preempted", "self_preempted", "closed")
DOUBLED = {"seats": "max_num_seqs", "tokens": "max_num_batched_tokens"} | dict.fromkeys(BLOCKS, "num_gpu_blocks")


def by_mark(seconds: Mapping[str, float]) -> dict[str, float]:
    """Add up the seconds of all reasons with the same mark, and return the sums, longest first."""
    found: defaultdict[str, float] = defaultdict(float)
    for name, value in seconds.items():
        found[REASONS[name].mark] += value
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def waits_sentence(waited: Mapping[str, float]) -> str:
    """Return the seconds that requests spent without a token, and each reason's share of them."""
    total = sum(waited.values())
    shares = ", ".join(f"{mark} {seconds / total:.0%}" for mark, seconds in by_mark(waited).items() if seconds)
    return f"requests got no token for {total:,.1f} seconds in all{f' ({shares})' if shares else ''}."


def relieved(experiment: Experiment, seconds: Mapping[str, float]) -> tuple[str, Experiment] | None:
    """Return the setting change suggested by the longest waits, and the experiment with that change.

    The result is None if no request waited or no setting helps.
    """
    by_setting: defaultdict[str, float] = defaultdict(float)
    for name, value in seconds.items():
        by_setting["enable_chunked_prefill" if name == "whole_prompt" else DOUBLED.get(name, "")] += value
    setting = max(by_setting, key=by_setting.__getitem__, default="")
    if not setting:
        return None
    if setting == "enable_chunked_prefill":
        return f"{setting} on", experiment.with_setting(setting, "on")
    value = getattr(experiment.resolved_engine(), setting)
    return f"{setting} {2 * value} instead of {value}", experiment.with_setting(setting, str(2 * value))
