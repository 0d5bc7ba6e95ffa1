"""An adapter for dynamo's mocker, which cannot be stepped and reports only times.

    pip download ai-dynamo-runtime==1.6.1 --no-deps && unzip ai_dynamo_runtime-*.whl -d dynamo-source
    PYTHONPATH=dynamo-source mini-vllm conformance -- python docs/conformance/dynamo_adapter.py

The mocker replays a file of requests offline, with fixed times for forward passes. It has no policies, thresholds or
aborts.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from dynamo._core import run_mocker_trace_replay

HAS = "preemption prefix_cache whole_prompts eos stop_tokens".split()
HELLO = {"protocol": 1, "engine": "dynamo's mocker", "version": "1.6.1", "has": HAS}
SAME = (
    "max_num_seqs max_num_batched_tokens enable_prefix_caching enable_chunked_prefill max_model_len block_size".split()
)
LITTLE = 1e-4  # how many ms before its pass each request arrives
TRACE = Path(tempfile.mkdtemp(), "requests.jsonl")


def play(message: dict[str, Any]) -> dict[str, Any]:
    config, requests, (prefill, decode) = message["config"], message["requests"], message["times"]
    idle = [request["at"] for request in requests if request["idle"]]
    if len(idle) > len(set(idle)) + sum(one == 0 for one in idle) - 1:
        return {"unsupported": "several arrivals while it is idle"}
    if not all(request["output"] for request in requests):
        return {"unsupported": "a request without output"}
    if config["enable_prefix_caching"] and any(map(continues(requests), requests)):
        return {"unsupported": "outputs in a later prompt"}
    # The first pass computes one token, so that requests can arrive while the mocker is busy.
    rows = [{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [0]}]
    blocks: dict[Any, int] = {}
    for place, request in enumerate(requests):
        early = 0 if request["idle"] and request["at"] else LITTLE * (len(requests) - place)
        rows.append(
            {
                "timestamp": round(request["at"] + prefill - early, 6),
                "input_length": len(request["prompt"]),
                "output_length": len(request["output"]),
                "hash_ids": hashes(request, config["block_size"], blocks),
            }
        )
    TRACE.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    engine = {"backend": "vllm", "num_gpu_blocks": config["usable_blocks"], **{name: config[name] for name in SAME}}
    engine["timing_model"] = {"type": "fixed", "prefill_ms": prefill, "decode_ms": decode}
    settings = {"num_workers": 1, "trace_block_size": config["block_size"], "capture_per_request": True}
    try:
        report = run_mocker_trace_replay([str(TRACE)], {"engine": engine}, max_sim_time_ms=1e6, **settings)
    except Exception as error:
        return {"unsupported": str(error)[:100]}
    found = sorted(report.per_request, key=lambda one: one["arrival_time_ms"])[1:]
    if len(found) < len(requests):
        return {"unsupported": "a report without some requests"}
    admitted, hits, tokens = {}, {}, {}
    for request, one in zip(requests, found, strict=True):
        history = one["admission_history"]
        admitted[request["id"]] = [each["at_ms"] - prefill for each in history]
        hits[request["id"]] = [each["reused_input_tokens"] for each in history]
        tokens[request["id"]] = times(one, len(request["output"]), prefill)
    return {"admitted": admitted, "hits": hits, "tokens": tokens}


def times(one: dict[str, Any], number: int, start: float) -> list[float | None]:
    """Return the times of the first two tokens and of the last token; the report gives no others."""
    known: list[float | None] = [None] * number
    known[-1] = one["last_token_ms"] - start
    if number > 1 and one["ttst_ms"] is not None:
        known[1] = one["first_token_ms"] + one["ttst_ms"] - start
    known[0] = one["first_token_ms"] - start
    return known


def hashes(request: dict[str, Any], size: int, known: dict[Any, int]) -> list[int]:
    """Return a number for each block in the prompt; identical prefixes get identical numbers."""
    prompt, found = request["prompt"], []
    for end in range(size, len(prompt) + size, size):
        key = tuple(prompt[:end]) if end <= len(prompt) else request["id"]
        found.append(known.setdefault(key, len(known) + 1))
    return found


def continues(requests: list[dict[str, Any]]) -> Any:
    """Return a function that checks whether a prompt continues another request's output."""
    outputs = [(len(one["prompt"]) + 1, [*one["prompt"], one["output"][0]]) for one in requests]
    return lambda request: any(request["prompt"][:length] == begin for length, begin in outputs)


for line in sys.stdin:
    asked = json.loads(line)
    answers = {"hello": HELLO | {"answers": "times", "offers": ["computed"]}, "play": {}}
    answer = play(asked) if asked["op"] == "play" else answers[asked["op"]]
    print(json.dumps(answer), flush=True)
