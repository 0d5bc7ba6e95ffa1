"""The figures of a trial as text, each with its value under the setting before."""

from course.views.chunking_dial.trial import MARKED, Percentiles, Setting, Trial
from course.views.figures import digits, seconds
from course.views.text import facts

MAX_NAMED = 2
"""Knobs that a sentence names; of more it has only the number."""


def title(setting: Setting) -> str:
    """Return the two settings of the engine that this view is about."""
    threshold = setting.long_prefill_token_threshold
    limit = f"at most {threshold:,} of one prompt per step" if threshold else "no limit for long prompts"
    return f"Token budget {setting.max_num_batched_tokens:,}, {limit}"


def circumstances(trial: Trial) -> str:
    """Return the workload and the deployment."""
    setting, deployment = trial.setting, trial.deployment
    return (
        f"{deployment.num_requests:,} requests of {setting.workload!r}, {digits(trial.rate)} per second "
        f"({setting.load} % load), at most {setting.max_num_seqs} at once, {deployment.model} on {deployment.gpu}"
    )


def previous(now: Trial, before: Trial) -> str:
    """Return the previous values of the knobs that were turned."""
    return ", ".join(f"{name} {was}" for name, was, _ in before.setting.differences(now.setting)) or "the same"


def sentence(now: Trial, before: Trial | None) -> str:
    """Return the knobs turned, the slowest 1 % of both latencies, the throughput, and a warning if memory is short."""
    first, between = now.times_to_first_token, now.inter_token_latencies
    old_first = before.times_to_first_token if before else None
    old_between = before.inter_token_latencies if before else None
    rate = f"{digits(now.output_tokens_per_second)} tokens/s"
    parts = [
        f"p50 time to first token {now_and_was(50, first, old_first)}",
        f"p99 time to first token {now_and_was(99, first, old_first)}",
        f"p99 inter-token latency {now_and_was(99, between, old_between)}",
        f"output {rate}{was(f'{digits(before.output_tokens_per_second)} tokens/s' if before else rate, rate)}",
    ]
    return " ".join(filter(None, [turned(now, before), f"{'; '.join(parts)}.", shortage(now)]))


def turned(now: Trial, before: Trial | None) -> str:
    """Return the knobs that were turned, with both values; empty if there are none."""
    differences = before.setting.differences(now.setting) if before else []
    if len(differences) > MAX_NAMED:
        return f"{len(differences)} knobs turned:"
    return ", ".join(f"{name} {old} → {new}" for name, old, new in differences) + ":" * bool(differences)


def shortage(trial: Trial) -> str:
    """Return a warning if K and V would not fit in the GPU's memory, else nothing."""
    if trial.peak_context_tokens <= trial.room_for_tokens:
        return ""
    return (
        f"Not realistic: the peak needs K and V of {trial.peak_context_tokens:,} tokens, and "
        f"{trial.room_for_tokens:,} fit. A real engine would preempt."
    )


def totals(trial: Trial) -> list[tuple[str, str]]:
    """Return the totals of the run, as (figure, name)."""
    share = trial.peak_context_tokens / trial.room_for_tokens
    return [
        (digits(trial.output_tokens_per_second), "output tokens per second"),
        (digits(trial.tokens_per_step), "tokens per step"),
        (f"{trial.num_steps:,}", "steps"),
        (f"{100 * share:.0f} %", "peak use of KV memory"),
    ]


def text_alternative(now: Trial, before: Trial | None) -> str:
    """Return every figure of the picture as text."""
    lines: list[tuple[str, object]] = []
    for name, new, old in (
        ("time to first token", now.times_to_first_token, before.times_to_first_token if before else None),
        ("inter-token latency", now.inter_token_latencies, before.inter_token_latencies if before else None),
    ):
        lines += [(f"{name} p{percent:.0f}", now_and_was(percent, new, old)) for percent in MARKED]
    for (figure, name), (old_figure, _) in zip(totals(now), totals(before or now), strict=True):
        lines.append((name, f"{figure}{was(old_figure, figure)}"))
    if before:
        lines.append(("before", previous(now, before)))
    setting = f"{circumstances(now)}; simulated time, no prefix cache"
    return "\n".join([title(now.setting), setting, facts(lines), sentence(now, before)])


def now_and_was(percent: float, now: Percentiles, before: Percentiles | None) -> str:
    """Return a percentile, and its previous value if that differs."""
    text = seconds(now[percent])
    return text + was(seconds(before[percent]) if before else text, text)


def was(before: str, now: str) -> str:
    """Return the previous figure, nothing if it is the same."""
    return "" if before == now else f", was {before}"
