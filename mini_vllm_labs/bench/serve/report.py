"""The figures of a round, in the format of vLLM's `bench serve`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mini_vllm_labs.bench.serve.answer import ClientAnswer
from mini_vllm_labs.bench.serve.completion import Round
from mini_vllm_labs.simulation.summary import Spread

MIN_SPAN = 0.1  # over a shorter period, a few chance arrivals determine the rate
NAMES = ("ttft", "tpot", "e2el")


@dataclass(frozen=True, slots=True)
class Objective:
    """Limits in milliseconds; None means no limit. A request is good if it meets all limits. (vLLM: `--goodput`.)"""

    ttft: float | None = None
    tpot: float | None = None
    e2el: float | None = None

    def is_good(self, answer: ClientAnswer) -> bool:
        """Return whether a completed answer was within every limit."""
        measured = (answer.ttft, answer.tpot, answer.e2el)
        limits = (self.ttft, self.tpot, self.e2el)
        return all(limit is None or 1e3 * value <= limit for value, limit in zip(measured, limits, strict=True))


def parse_objective(texts: Sequence[str]) -> Objective | None:
    """Parse limits such as `ttft:200 tpot:50`, in one string or several; return None if there are no limits.

    Raises `ValueError` for anything else.
    """
    limits: dict[str, float] = {}
    for item in " ".join(texts).replace(",", " ").split():
        name, _, value = item.partition(":")
        try:
            limits[name] = float(value)
        except ValueError:
            limits[name] = 0.0
        if name not in NAMES or not limits[name] > 0:
            raise ValueError(
                f"goodput must be NAME:MILLISECONDS, where NAME is one of {', '.join(NAMES)}, got {item!r}"
            )
    return Objective(**limits) if limits else None


@dataclass(frozen=True, slots=True)
class RoundReport:
    """Figures of the completed requests; times are in seconds. `failed` counts the other requests by reason.

    `request_goodput` is None without an objective. `left_over` is the share of the arriving requests that pile up (see
    `left_over`). `cpu_share` is the share of one core that the client used, and `lag` is how late it sent requests.
    """

    completed: int
    failed: dict[str, int]
    duration: float
    total_input_tokens: int
    total_output_tokens: int
    request_throughput: float
    request_goodput: float | None
    output_throughput: float
    total_token_throughput: float
    peak_concurrent: int
    left_over: float
    ttft: Spread
    tpot: Spread
    itl: Spread
    e2el: Spread
    lag: Spread
    cpu_share: float


def report(round_: Round, objective: Objective | None = None) -> RoundReport:
    """Return the figures of a round."""
    done, seconds = round_.completed, round_.seconds
    num_input = sum(answer.num_prompt_tokens for answer in done)
    num_output = sum(answer.num_output_tokens for answer in done)
    num_good = None if objective is None else sum(map(objective.is_good, done))
    return RoundReport(
        completed=len(done),
        failed=dict(Counter(answer.error for answer in round_.answers if answer.error is not None).most_common()),
        duration=seconds,
        total_input_tokens=num_input,
        total_output_tokens=num_output,
        request_throughput=len(done) / seconds,
        request_goodput=None if num_good is None else num_good / seconds,
        output_throughput=num_output / seconds,
        total_token_throughput=(num_input + num_output) / seconds,
        peak_concurrent=peak_concurrent(round_.answers),
        left_over=left_over(round_.answers),
        ttft=spread(answer.ttft for answer in done),
        tpot=spread(answer.tpot for answer in done if answer.num_output_tokens > 1),
        itl=spread(gap for answer in done for gap in answer.itls),
        e2el=spread(answer.e2el for answer in done),
        lag=spread(round_.lags),
        cpu_share=round_.cpu_seconds / seconds,
    )


def spread(values: Iterable[float]) -> Spread:
    """Return the mean and percentiles; all are 0 if there are no values."""
    return Spread.of([(value, 1) for value in values])


def peak_concurrent(answers: Sequence[ClientAnswer]) -> int:
    """Return the maximum number of requests in progress at once."""
    changes = sorted([(answer.sent, 1) for answer in answers] + [(answer.ended, -1) for answer in answers])
    peak = current = 0
    for _, change in changes:
        current += change
        peak = max(peak, current)
    return peak


def left_over(answers: Sequence[ClientAnswer]) -> float:
    """Return the share of the arriving requests that pile up because the server cannot keep up.

    The function compares the last quarter of the arrivals with the second quarter. The share is the increase in the
    mean number of requests in progress, divided by the number of requests that arrive between the middles of these
    quarters. The share is about 0 at a sustainable rate, and 0 for requests that are all sent at once.
    """
    end = max((answer.sent for answer in answers), default=0.0)
    if end < MIN_SPAN:
        return 0.0
    growth = mean_under_way(answers, 0.75 * end, end) - mean_under_way(answers, 0.25 * end, 0.5 * end)
    return max(0.0, growth / (len(answers) / 2))


def mean_under_way(answers: Sequence[ClientAnswer], begin: float, end: float) -> float:
    """Return the average number of requests in progress between two points in time."""
    shares = (min(answer.ended, end) - max(answer.sent, begin) for answer in answers)
    return sum(max(0.0, seconds) for seconds in shares) / (end - begin)
