"""A trial in words: its title, what changed since the one before, and every figure as text."""

from course.views.chunking_dial.trial import MARKED, Percentiles, Setting, Trial
from course.views.figures import change, digits, seconds

MOST_NAMED = 2
"""Knobs that a sentence names; of more it says how many."""


def title(setting: Setting) -> str:
    """Return the engine's two knobs that this is about."""
    threshold = setting.long_prefill_token_threshold
    limit = f"at most {threshold:,} of one prompt in a step" if threshold else "no limit for long prompts"
    return f"Token budget {setting.max_num_batched_tokens:,}, {limit}"


def circumstances(trial: Trial) -> str:
    """Return what was served, and on what."""
    setting, deployment = trial.setting, trial.deployment
    return (
        f"{deployment.num_requests:,} requests of {setting.workload!r}, {digits(trial.rate)} a second "
        f"({setting.load} % load), at most {setting.max_num_seqs} at once, {deployment.model} on {deployment.gpu}"
    )


def sentence(now: Trial, before: Trial | None) -> str:
    """Return what the last turn of a knob did; without one, how long it takes."""
    if before is None or before.setting == now.setting:
        said = waits(now)
    else:
        said = f"{turned(before, now)}: {effects(before, now)}"
    return f"{said} {shortage(now)}".strip()


def turned(before: Trial, now: Trial) -> str:
    """Return which knob was turned, and from where to where."""
    differences = before.setting.differences(now.setting)
    if len(differences) > MOST_NAMED:
        return f"{len(differences)} knobs turned"
    return ", ".join(f"{name} {was} → {is_}" for name, was, is_ in differences)


def stood_at(before: Trial, now: Trial) -> str:
    """Return where the knobs stood that were turned since."""
    return ", ".join(f"{name} {was}" for name, was, _ in before.setting.differences(now.setting)) or "the same"


def waits(trial: Trial) -> str:
    """Return how long one waits."""
    first, between = trial.times_to_first_token, trial.inter_token_latencies
    return (
        f"Half of the requests wait {seconds(first[50])} or less for their first token, one in a hundred more than "
        f"{seconds(first[99])}. One token in a hundred comes more than {seconds(between[99])} after the one before it."
    )


def effects(before: Trial, now: Trial) -> str:
    """Return what became of the two slow ends and of the throughput."""
    outcomes = [
        f"{name} {change(was[percent], is_[percent], seconds(is_[percent]), seconds(was[percent]))}"
        for name, percent, was, is_ in (
            ("p99 inter-token latency", 99, before.inter_token_latencies, now.inter_token_latencies),
            ("p99 time to first token", 99, before.times_to_first_token, now.times_to_first_token),
        )
    ]
    rates = before.output_tokens_per_second, now.output_tokens_per_second
    throughput = change(*rates, f"{digits(rates[1])} tokens a second", digits(rates[0]))
    return f"{', '.join(outcomes)}, output {throughput}."


def shortage(trial: Trial) -> str:
    """Return a warning if no GPU of this kind could have held all that, else nothing."""
    if trial.peak_context_tokens <= trial.room_for_tokens:
        return ""
    return (
        f"Too good to be true: at its peak this needs K and V of {trial.peak_context_tokens:,} tokens, and "
        f"{trial.room_for_tokens:,} fit. A real engine would preempt."
    )


def totals(trial: Trial) -> list[tuple[str, str]]:
    """Return what the whole run adds up to, as (figure, what it is)."""
    share = trial.peak_context_tokens / trial.room_for_tokens
    return [
        (digits(trial.output_tokens_per_second), "output tokens per second"),
        (digits(trial.tokens_per_step), "tokens per step"),
        (f"{trial.num_steps:,}", "steps"),
        (f"{100 * share:.0f} %", "of the room for K and V, at most"),
    ]


def twin(now: Trial, before: Trial | None) -> str:
    """Return every figure of the picture as text."""
    lines = [title(now.setting), f"{circumstances(now)}; simulated time, no prefix cache", ""]
    lines += table("time to first token", now.times_to_first_token, before.times_to_first_token if before else None)
    lines += table("inter-token latency", now.inter_token_latencies, before.inter_token_latencies if before else None)
    for (figure, name), (figure_before, _) in zip(totals(now), totals(before or now), strict=True):
        lines.append(f"{figure} {name}{was(figure_before, figure)}")
    if before:
        lines.append(f"before: {stood_at(before, now)}")
    return "\n".join([*lines, "", sentence(now, before)])


def table(name: str, now: Percentiles, before: Percentiles | None) -> list[str]:
    """Return a line for each marked percentile, with the one of before behind it."""
    return [f"{name} p{percent:.0f}: {now_and_was(percent, now, before)}" for percent in MARKED]


def now_and_was(percent: float, now: Percentiles, before: Percentiles | None) -> str:
    """Return a time, and what it was before if that differs."""
    text = seconds(now[percent])
    return text + was(seconds(before[percent]) if before else text, text)


def was(before: str, now: str) -> str:
    """Return what a figure was before, nothing if it is the same."""
    return "" if before == now else f", was {before}"
