"""Reads recorded scenarios, together with the capabilities that each one needs and the messages that describe it."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Message = dict[str, Any]
HERE = Path(__file__).parent
FOLDER = HERE if (HERE / "traces").is_dir() else HERE.parent / "runs" / "parity"  # the wheel contains a separate copy
FILES = {
    "0.13.0": ("traces/named.jsonl", "traces/random.jsonl.gz", "traces/random2.jsonl.gz", "traces/gates.jsonl.gz"),
    "0.33.0": ("traces33/named33.jsonl", "traces33/random33.jsonl.gz", "traces33/gates33.jsonl.gz"),
}
PLAIN = ("preemption prefix_cache priority whole_prompts chunk_limit eos stop_tokens abort abort_before_update").split()
GATES = ("grammar", "lora", "encoder", "remote", "window", "hybrid")
CAPABILITIES = (*PLAIN, "options", "pause", "reset", "spec", "async", *GATES)
SHORT = {"plain": PLAIN, "gates": GATES}
KINDS = ("plain", "spec", "async", "async_spec", *GATES, "gates")
# the course's engine determines these decisions, and these scenarios run only if they are named explicitly
DRAWN = ("small", "mixed")
OPTIONS = {
    "scheduler_reserve_full_isl": True,
    "watermark": 0,
    "prefill_schedule_interval": 1,
    "max_num_active_seqs": None,
    "max_num_scheduled_tokens": None,
    "long_prefill_token_threshold_adaptive": False,
}
NEEDED = set(
    "scheduled preempted evicted finished_sent free_after_schedule output finished running_after waiting_after "
    "free_after_update".split()
)
NOT_SENT = ("prompt", "prompt_len", "planned")


@dataclass(frozen=True)
class RecordedScenario:
    """One recorded line. `traces/README.md` explains its fields."""

    line: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.line["name"])

    @property
    def release(self) -> str:
        return str(self.line["config"].get("version", "0.13.0"))

    @property
    def steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = self.line["trace"]["steps"]
        return steps

    @cached_property
    def kind(self) -> str:
        """The scenario's row in the table: `base` becomes `plain`, and a named scenario is classified by its
        capabilities."""
        kind = str(self.line["kind"])
        if kind != "named":
            return "plain" if kind == "base" else kind
        if gates := [gate for gate in GATES if gate in self.needs]:
            return gates[0] if len(gates) == 1 else "gates"
        return "_".join(mode for mode in ("async", "spec") if mode in self.needs) or "plain"

    @cached_property
    def needs(self) -> frozenset[str]:
        """The capabilities that an engine must declare for this scenario."""
        config, requests = self.line["config"], self.line["requests"].values()
        outputs = {token for step in self.steps for _, tokens in step["output"] for token in tokens}
        events = self.line["events"]
        found = {
            "preemption": any(step["preempted"] for step in self.steps),
            "prefix_cache": config["enable_prefix_caching"],
            "priority": config["policy"] == "priority",
            "whole_prompts": not config["enable_chunked_prefill"],
            "chunk_limit": config["long_prefill_token_threshold"] > 0,
            "eos": config["eos_token_id"] in outputs,
            "stop_tokens": any(token in outputs for one in requests for token in one["stop_token_ids"]),
            "abort": any("abort" in event and "when" not in event for event in events),
            "abort_before_update": any("when" in event for event in events),
            "options": any(config.get(name, default) != default for name, default in OPTIONS.items()),
            "pause": any("pause" in event for event in events),
            "reset": any("reset" in event for event in events),
            "spec": config["spec"],
            "async": config["async_scheduling"],
            "remote": config.get("connector"),
            "window": config.get("window") and not config["window"]["hybrid"],
            "hybrid": config.get("window") and config["window"]["hybrid"],
            **{gate: config.get(gate) for gate in ("grammar", "lora", "encoder")},
        }
        return frozenset(name for name, used in found.items() if used)

    def begin(self) -> Message:
        """Return the message that starts the scenario. The message's number of blocks excludes the null block."""
        config = {k: v for k, v in self.line["config"].items() if k not in ("version", "num_gpu_blocks")}
        config["usable_blocks"] = self.line["config"]["num_gpu_blocks"] - 1
        return {"op": "init", "name": self.name, "release": self.release, "config": config}

    def events(self, step: int, *, before_update: bool) -> list[Message]:
        """Return the messages at the beginning of a step, or those between the step's decision and its update."""
        here = [one for one in self.line["events"] if one["step"] == step and ("when" in one) == before_update]
        return [self._message(event) for event in here]

    def update(self, number: int) -> Message:
        """Return the message with the model's tokens that a step applies, which are those of step `of`."""
        step = self.steps[number]
        of = step["update_of"]
        sampled = {} if of is None else self.steps[of]["sampled"]
        some = {"transfers": step["transfers"]} if "transfers" in step else {}
        return {"op": "update", "step": number, "of": of, "sampled": sampled, "drafts": step["drafts_given"], **some}

    def prompt(self, request_id: str) -> Iterator[int]:
        for part in self.line["requests"][request_id]["prompt"]:
            if "tokens" in part:
                yield from part["tokens"]
            elif "seed" in part:
                yield from (_token(f"p{part['seed']}:{i}") for i in range(part["len"]))
            else:
                of = part["output_of"]
                planned = dict(self.line["requests"][of]["planned"])
                yield from (planned.get(i, _token(f"o{of}:{i}")) for i in range(part["len"]))

    def _message(self, event: dict[str, Any]) -> Message:
        if "add" in event:
            request_id = event["add"]
            described = {k: v for k, v in self.line["requests"][request_id].items() if k not in NOT_SENT}
            return {"op": "add", "id": request_id, "prompt": list(self.prompt(request_id)), **described}
        if "pause" in event:
            return {"op": "pause", "what": event["pause"]}
        if "reset" in event:
            return {"op": "reset", "running": event["reset"] == "running"}
        return next({"op": op, "id": event[op]} for op in ("abort", "compiled") if op in event)


def _token(text: str) -> int:
    return 100 + zlib.crc32(text.encode()) % 900


def read(path: Path) -> Iterator[RecordedScenario]:
    """Yield a file's scenarios. Raises `ValueError`, naming the file and line, if a scenario cannot be read."""
    last = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for last, text in enumerate(file, start=1):  # noqa: B007 (the handlers below name it)
                if text.strip():
                    yield _checked(json.loads(text))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    except KeyError as error:
        raise ValueError(f"{path}, line {last}: not a valid trace: {error} is missing") from error
    except (EOFError, zlib.error, ValueError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise ValueError(f"{path}, line {last or 1}: not a valid trace: {error}") from error


def _checked(line: Any) -> RecordedScenario:
    """Return the line's scenario, after checking that every part that a run needs can be read."""
    scenario = RecordedScenario(line)
    if scenario.release not in FILES:
        raise ValueError(f"config.version is {scenario.release!r}, but the known releases are {', '.join(FILES)}")
    if scenario.kind not in (*KINDS, *DRAWN):
        raise ValueError(f"kind is {line['kind']!r}, but the known kinds are named, base, {', '.join(KINDS[1:])}")
    scenario.begin()
    for number, step in enumerate(scenario.steps):
        scenario.update(number)
        if missing := sorted(NEEDED - step.keys()):
            raise KeyError(missing[0])
    for event in line["events"]:
        if event["step"] < 0 or ("add" in event and event["add"] not in line["requests"]):
            raise ValueError(f"the event {event} adds an unknown request, or comes before step 0")
    line["defects"] = list(line.get("defects", ()))
    return scenario


def drawn_file(release: str) -> str:
    """Return the file with a release's drawn scenarios, which exists only in the wheel."""
    return str(Path(FILES[release][0]).with_name("drawn.jsonl.gz"))


def chosen(releases: Iterable[str], kinds: Iterable[str], files: Iterable[Path] = ()) -> Iterator[RecordedScenario]:
    """Yield scenarios of some releases and kinds, from the suite or from files; all kinds if no kind is named.

    Raises `ValueError`, listing the legal values, for an unknown release or kind.
    """
    releases, kinds = tuple(releases), tuple(kinds) or KINDS
    for what, given, legal in (("release", releases, tuple(FILES)), ("kind", kinds, (*KINDS, *DRAWN))):
        if unknown := [one for one in given if one not in legal]:
            raise ValueError(f"unknown {what} {unknown[0]!r}: take {', '.join(legal)}")
    paths = [FOLDER / name for release in releases for name in (*FILES[release], drawn_file(release))]
    for path in files or filter(Path.is_file, paths):
        yield from (one for one in read(path) if one.release in releases and one.kind in kinds)
