"""Reads recorded scenarios (settings, requests and fake model), as defined in `traces/README.md`."""

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from mini_vllm.assembly.lineup import ALL_NAMES, Lineup
from mini_vllm.config import DraftMethod, EngineConfig, SpeculativeConfig
from mini_vllm.core.request import MultiModalFeatureSpec, Request
from mini_vllm.release_rules import RELEASES, rules_of
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.runs.parity.known_fields import EVENTS, GATES, unknown_field
from mini_vllm_labs.runs.parity.transfers import RecordedConnector
from mini_vllm_labs.runs.workloads.electives import electives_of

PUBLIC_TRACES, NEWER_TRACES = Path(__file__).parent / "traces", Path(__file__).parent / "traces33"
PUBLIC_FILES = tuple(
    PUBLIC_TRACES / name for name in ("named.jsonl", "random.jsonl.gz", "random2.jsonl.gz", "gates.jsonl.gz")
)
NEWER_FILES = tuple(NEWER_TRACES / name for name in ("named33.jsonl", "random33.jsonl.gz", "gates33.jsonl.gz"))
PHASE_OF_GATE = {"grammar": 9, "window": 12}


def prompt_token(seed: str, index: int) -> int:
    """Return the token at position `index` of the prompt segment that `seed` identifies."""
    return 100 + crc32(f"p{seed}:{index}".encode()) % 900  # not `hash`, which differs between processes


def output_token(request_id: str, index: int) -> int:
    """Return the fake model's default output token `index` for a request, which a scenario may override."""
    return 100 + crc32(f"o{request_id}:{index}".encode()) % 900


@dataclass(frozen=True)
class Scenario:
    line: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.line["name"])

    @property
    def kind(self) -> str:
        return str(self.line["kind"])

    @property
    def defects(self) -> list[str]:
        return list(self.line["defects"])

    @property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.line["trace"]["steps"])

    @property
    def max_steps(self) -> int:
        return int(self.line["max_steps"])

    @property
    def electives(self) -> frozenset[int]:
        used = {name: self.line["config"].get(name) for name in ("grammar", "window")}
        return electives_of(self.config()) | {PHASE_OF_GATE[name] for name, setting in used.items() if setting}

    @property
    def has_gates(self) -> bool:
        """Whether admission has more conditions than in phases 1 to 5, or any layer has an attention window."""
        return any(name in self.line["config"] for name in GATES)

    def out_of_scope(self, lineup: Lineup) -> str | None:
        """Return the name of an elective phase that the scenario uses but the lineup lacks, or None."""
        missing = [phase for phase in sorted(self.electives, reverse=True) if lineup[phase] == "absent"]
        return f"phase {missing[0]} ({ALL_NAMES[missing[0] - 1]})" if missing else None

    @property
    def release(self) -> str:
        """The vLLM release used for the recording."""
        return str(self.line["config"].get("version", "0.13.0"))

    def config(self) -> EngineConfig:
        settings = dict(self.line["config"])
        del settings["eos_token_id"]
        settings["vllm"] = settings.pop("version", "0.13.0")
        gates = {name: settings.pop(name) for name in GATES if name in settings}
        if "lora" in gates:
            settings["max_loras"] = gates["lora"]["max_loras"]
        if "encoder" in gates:
            budget, cache = gates["encoder"]["budget"], gates["encoder"]["cache"]
            settings |= {"max_num_encoder_input_tokens": budget, "encoder_cache_size": cache}
        if self.release != RELEASES[0] and "window" in gates:
            retention = gates["window"]["retention"]
            settings["prefix_cache_retention_interval"] = "all" if retention is None else retention
        if (spec := settings.pop("spec")) is not None:
            settings["speculative_config"] = _speculative_config(spec, self.release)
        return EngineConfig(**settings)

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The attention window of each layer group; None means all tokens."""
        window = self.line["config"].get("window")
        if window is None:
            return (None,)
        return (None, window["tokens"]) if window["hybrid"] else (window["tokens"],)

    def connector(self) -> RecordedConnector | None:
        """Build the connector that the scenario describes, or return None if it has none."""
        described = self.line["config"].get("connector")
        if described is None:
            return None
        block_size = self.line["config"]["block_size"]
        return RecordedConnector(
            self.line["requests"],
            block_size,
            is_async=described["async"],
            reports_aborted=rules_of(self.release).blocks_in_flight_stay,
        )

    def request(self, request_id: str) -> Request:
        described = self.line["requests"][request_id]
        return Request(
            request_id=request_id,
            prompt_token_ids=self.prompt(request_id),
            sampling_params=SamplingParams(
                max_tokens=described["max_tokens"],
                ignore_eos=described["ignore_eos"],
                stop_token_ids=tuple(described["stop_token_ids"]),
            ),
            eos_token_ids=frozenset([self.line["config"]["eos_token_id"]]),
            priority=described["priority"],
            arrival_time=described["arrival_time"],
            adapter_id=str(described["adapter"]) if "adapter" in described else None,
            grammar=Future() if described.get("grammar") else None,
            mm_features=tuple(MultiModalFeatureSpec(*image) for image in described.get("images", ())),
        )

    def prompt(self, request_id: str) -> list[int]:
        token_ids: list[int] = []
        for segment in self.line["requests"][request_id]["prompt"]:
            if "tokens" in segment:
                token_ids += segment["tokens"]
            elif "seed" in segment:
                token_ids += [prompt_token(segment["seed"], index) for index in range(segment["len"])]
            else:
                token_ids += [self.output(segment["output_of"], index) for index in range(segment["len"])]
        return token_ids

    def output(self, request_id: str, index: int) -> int:
        """Return the fake model's output token `index` for a request."""
        planned = dict(self.line["requests"][request_id]["planned"])
        return int(planned.get(index, output_token(request_id, index)))

    def events(self, step: int, before_update: bool) -> Iterator[tuple[str, str]]:
        """Yield the events before a step or before its update, in order, as (one of `EVENTS`, its value) pairs."""
        for event in self.line["events"]:
            if event["step"] == step and ("when" in event) == before_update:
                action = next(name for name in EVENTS if name in event)
                yield action, event[action]


def _speculative_config(spec: dict[str, Any], release: str) -> SpeculativeConfig:
    if release == RELEASES[0]:
        # 0.13.0's scheduler only checks whether the drafter has a KV cache, as EAGLE's drafter does.
        method: DraftMethod = "draft_model" if spec["method"] == "eagle" else "ngram"
        return SpeculativeConfig(method, spec["num_speculative_tokens"])
    rows = spec.get("per_batch_size")
    return SpeculativeConfig(
        spec["method"],
        spec["num_speculative_tokens"],
        num_speculative_tokens_per_batch_size=rows and tuple(tuple(row) for row in rows),
        disable_lookahead_block_hashes=spec["last_hit_block"] != "hashed",
        disable_eagle_block_drop=spec["last_hit_block"] == "kept",
    )


def read_scenarios(path: Path) -> Iterator[Scenario]:
    """Yield the scenarios in a `.jsonl` or `.jsonl.gz` file.

    Raises a `ValueError` with the line number if a line is not a trace or comes from an unknown release.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
                missing = {"name", "kind", "config", "requests", "events", "max_steps", "trace"} - line.keys()
                what = f"{', '.join(sorted(missing))} missing" if missing else unknown_field(line)
            except (json.JSONDecodeError, AttributeError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: not a valid trace: {error}") from error
            except KeyError as error:
                what = f"{error} missing in {line['name']!r}"
            if what:
                raise ValueError(f"{path}, line {number}: not a valid trace: {what}")
            line.setdefault("defects", [])
            yield Scenario(line)
