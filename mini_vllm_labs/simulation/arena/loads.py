"""Loads for policies: the simulator's workloads with tenants and limits, and traces from real services.

Traces are files in the formats of Azure, BurstGPT, Mooncake and Qwen-Bailian. "Loads of real services" in
labs/phase13_scheduling_policies/README.md links to the published files.
"""

import csv
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, islice, repeat
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

from mini_vllm.core.service_level import ServiceLevel
from mini_vllm_labs.runs.workloads import urgency
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.workloads import LazyPrompt, SyntheticPrompt, make_requests

URGENT = ServiceLevel("urgent", ttft=0.5, tpot=0.05)
NORMAL = ServiceLevel("normal", ttft=3.0, tpot=0.1)
LATER = ServiceLevel("batch", e2e=60.0)
# in tokens: a prompt of at least this length is a document, and nobody reads its answer while it is being generated
LONG_PROMPT = 1_000
MOONCAKE_BLOCK, BAILIAN_BLOCK = 512, 16  # tokens per prefix hash
# A column's names in the four formats, the most precise first. Mooncake's times are in milliseconds, the others' in
# seconds.
ARRIVAL = ("timestamp", "Timestamp", "TIMESTAMP", "arrival_time")
INPUT = ("input_length", "Request tokens", "ContextTokens")
OUTPUT = ("output_length", "Response tokens", "GeneratedTokens")
TENANT = ("tenant", "Model", "type")
# Columns that are ignored: Bailian's hashes already show which requests belong to a chat, and BurstGPT's times describe
# its own service.
HARMLESS = {"hash_ids", "chat_id", "parent_chat_id", "turn", "Total tokens", "Elapsed time", "Log Type"}
LEFT_OUT = {
    "NumImages": "images are not encoded",
    "Session ID": "a turn shares no prefix with the turns before it, and does not wait for their answers",
}


@dataclass(frozen=True, slots=True)
class ArenaLoad:
    """A simulator workload at a rate in requests per second, with its requests divided among tenants.

    The first tenant sends `heavy_share` of the requests, and the other tenants send equal parts of the rest. One
    request in five is urgent. Long prompts belong to the class without a limit on the first token.
    """

    workload: str = "chat"
    num_requests: int = 2_000
    rate: float = 10.0
    num_tenants: int = 3
    heavy_share: float = 0.6

    def __post_init__(self) -> None:
        if self.num_tenants < 1:
            raise ValueError(f"num_tenants must be at least 1, got {self.num_tenants}")
        if not 0 < self.heavy_share <= 1:
            raise ValueError(f"heavy_share must be greater than 0 and at most 1, got {self.heavy_share}")

    def requests(self, seed: int) -> list[TimedRequest]:
        """Return a seed's requests in order of arrival."""
        rng = random.Random(f"{seed} tenants")
        tenants = [f"tenant {number + 1}" for number in range(self.num_tenants)]
        light = (1 - self.heavy_share) / max(1, self.num_tenants - 1)
        weights = [self.heavy_share] + [light] * (self.num_tenants - 1)
        plain = make_requests(self.workload, self.num_requests, self.rate, seed)
        return [with_promise(request, rng.choices(tenants, weights)[0], rng.random()) for request in plain]


@dataclass(frozen=True, slots=True)
class UnevenOutputs:
    """Requests at `rate` per second, whose output lengths have mean `mean` and a given variation.

    `variation` is the squared coefficient of variation. 0 makes all lengths equal; if it is over 1, the lengths come
    from two exponential distributions, and a few are very long.
    """

    num_requests: int
    rate: float
    mean: float
    variation: float

    def requests(self, seed: int) -> list[TimedRequest]:
        """Return a seed's requests in order of arrival."""
        rng, time = random.Random(seed), 0.0
        found: list[TimedRequest] = []
        for number in range(self.num_requests):
            length = max(1, round(self._draw(rng)))
            request = TimedRequest(time, str(number), SyntheticPrompt(16, number), length)
            found.append(with_promise(request, f"tenant {number % 2}", 1.0))
            time += rng.expovariate(self.rate)
        return found

    def _draw(self, rng: random.Random) -> float:
        if self.variation <= 1:
            return self.mean * (1 if self.variation == 0 else rng.gammavariate(1 / self.variation, self.variation))
        share = (1 + ((self.variation - 1) / (self.variation + 1)) ** 0.5) / 2
        is_short = rng.random() < share
        return rng.expovariate(2 * (share if is_short else 1 - share) / self.mean)


def with_promise(request: TimedRequest, tenant: str, draw: float) -> TimedRequest:
    """Give a request a tenant and a class, where `draw` is a number from 0 to 1. Long prompts are never urgent."""
    if request.num_prompt_tokens >= LONG_PROMPT:
        return replace(request, tenant=tenant, service_level=LATER, priority=urgency.NORMAL)
    priority = urgency.priority_of(draw)
    level = URGENT if priority == urgency.URGENT else NORMAL
    return replace(request, tenant=tenant, service_level=level, priority=priority)


@dataclass(frozen=True, slots=True)
class HashedPrompt(LazyPrompt):
    """A prompt known only by its blocks' hashes: two prompts agree as far as their hashes do."""

    num_tokens: int
    hash_ids: tuple[int, ...]
    block_size: int

    def __iter__(self) -> Iterator[int]:
        tokens = chain.from_iterable(repeat(hash_id, self.block_size) for hash_id in self.hash_ids)
        return islice(chain(tokens, repeat(0)), self.num_tokens)


@dataclass(frozen=True, slots=True)
class TraceLoad:
    """The first `num_requests` requests in a trace file, arriving `speed` times as fast."""

    path: str
    num_requests: int = 2_000
    speed: float = 1.0

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise ValueError(f"speed must be greater than 0, got {self.speed}")

    def left_out(self) -> str:
        """Return which of the file's columns are ignored, and the consequence, or an empty string if none are."""
        _, first = next(_records(Path(self.path)), (0, {}))
        first = json.loads(first) if isinstance(first, str) else first
        lost = [name for name in first if name not in HARMLESS.union(ARRIVAL, INPUT, OUTPUT, TENANT)]
        return "; ".join(f"{name} ({LEFT_OUT.get(name, 'not known')})" for name in lost)

    def requests(self, seed: int) -> list[TimedRequest]:
        """Return the requests in order of arrival; `seed` decides which of them are urgent.

        Failed requests, which have no output in these traces, are skipped. Raises a `ValueError` with the line number
        if the format is unknown.
        """
        rows = sorted(islice(read_rows(Path(self.path)), self.num_requests), key=lambda row: row.arrival_time)
        if not rows:
            raise ValueError(f"{self.path} contains no request that has an output")
        rng, first = Random(f"{seed} classes"), rows[0].arrival_time
        return [
            with_promise(
                TimedRequest((row.arrival_time - first) / self.speed, str(number), row.prompt, row.num_output_tokens),
                row.tenant,
                rng.random(),
            )
            for number, row in enumerate(rows)
        ]


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One request in a trace file. `arrival_time` is in seconds."""

    arrival_time: float
    prompt: HashedPrompt
    num_output_tokens: int
    tenant: str


def read_rows(path: Path) -> Iterator[TraceRow]:
    """Yield a `.csv` or `.jsonl` file's requests that have an output. Raises a `ValueError` with the line number if a
    line is invalid."""
    if path.suffix not in (".csv", ".jsonl"):
        raise ValueError(f"a trace must be a .csv or .jsonl file, got {path}")
    number = 0
    try:
        for number, record in _records(path):
            row = _row(record if isinstance(record, dict) else json.loads(record), number)
            if row.num_output_tokens > 0:
                yield row
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}, line {number}: {error}") from None


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield each line's number and content: a table row keyed by column name, or JSON as text."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        if path.suffix == ".csv":
            yield from enumerate(csv.DictReader(lines), start=2)
        else:
            yield from enumerate(filter(str.strip, lines), start=1)


def _row(record: Mapping[str, Any], number: int) -> TraceRow:
    if not isinstance(record, dict) or not isinstance(record.get("hash_ids", []), list):
        raise ValueError("must be a JSON object whose hash_ids is a list")
    num_tokens, num_output_tokens = int(_column(record, INPUT)), int(_column(record, OUTPUT))
    if num_output_tokens < 0 or num_tokens < min(1, num_output_tokens):
        # failed requests in BurstGPT have 0 prompt tokens and 0 output tokens
        raise ValueError(
            f"the prompt must have at least 1 token and the output at least 0, got {num_tokens} and {num_output_tokens}"
        )
    is_bailian = "chat_id" in record
    hashes = record.get("hash_ids") or ()
    block_size = BAILIAN_BLOCK if is_bailian else MOONCAKE_BLOCK
    # If the last block does not have a hash, it is filled with zeros. A prompt without hashes does not share anything
    # with other prompts.
    prompt = HashedPrompt(num_tokens, tuple(1 + int(hash_id) for hash_id in hashes), block_size)
    if not hashes:
        prompt = HashedPrompt(num_tokens, (-number,), num_tokens)
    is_mooncake = "hash_ids" in record and not is_bailian
    seconds = _seconds(_column(record, ARRIVAL)) / (1000 if is_mooncake else 1)
    return TraceRow(
        seconds, prompt, num_output_tokens, str(next((record[name] for name in TENANT if name in record), ""))
    )


def _column(record: Mapping[str, Any], names: Sequence[str]) -> Any:
    for name in names:
        if record.get(name) not in (None, ""):
            return record[name]
    raise ValueError(f"needs a column {' or '.join(names)}, got {', '.join(map(str, record)) or 'none'}")


def _seconds(value: Any) -> float:
    try:
        seconds = float(value)
    except (
        ValueError
    ):  # Azure writes dates: in 2023 with seven decimals and no time zone, in 2024 in UTC, some without decimals
        date = datetime.fromisoformat(str(value))
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if not isfinite(seconds):
        raise ValueError(f"an arrival time must be finite, got {value!r}")
    return seconds
