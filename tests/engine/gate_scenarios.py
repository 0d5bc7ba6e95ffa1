"""Random scenarios for all the checks that a step makes before admission, in the recordings' format."""

import random
from typing import Any

from mini_vllm_labs.runs.parity.scenario import Scenario

NUM_STEPS = 60


def gate_scenario(seed: int) -> Scenario:
    """Return a low-memory scenario whose gates depend on the seed."""
    rng = random.Random(seed)
    block_size = rng.choice([2, 4, 8])
    max_model_len = block_size * rng.randint(4, 8)
    config: dict[str, Any] = {
        "max_num_seqs": rng.randint(1, 5),
        "max_num_batched_tokens": rng.randint(block_size, 3 * block_size),
        "long_prefill_token_threshold": rng.choice([0, block_size, 3]),
        "max_model_len": max_model_len,
        "enable_chunked_prefill": True,
        "enable_prefix_caching": rng.random() < 0.7,
        "policy": rng.choice(["fcfs", "priority"]),
        "block_size": block_size,
        "num_gpu_blocks": 1 + rng.randint(1, 3) * max_model_len // block_size,
        "async_scheduling": rng.random() < 0.3,
        "spec": None,
        "eos_token_id": 2,
        "grammar": rng.random() < 0.5,
    }
    if rng.random() < 0.5:
        config["lora"] = {"max_loras": rng.randint(1, 2)}
    if rng.random() < 0.5:
        config["encoder"] = {"budget": rng.randint(6, 9), "cache": rng.randint(6, 20)}
    if rng.random() < 0.6:
        config["connector"] = {"async": rng.random() < 0.7}
    elif rng.random() < 0.5:
        config["window"] = {"tokens": rng.randint(2, max_model_len), "hybrid": rng.random() < 0.5}
        config["num_gpu_blocks"] *= 2
    requests = {f"r{number}": _request(rng, config, f"r{number}") for number in range(rng.randint(4, 16))}
    line = {
        "name": f"gates-{seed}",
        "kind": "gates",
        "config": config,
        "requests": requests,
        "events": _events(rng, requests),
        "max_steps": 1000,
        "defects": [],
        "trace": {"steps": [], "requests": {}},
    }
    return Scenario(line)


def _request(rng: random.Random, config: dict[str, Any], name: str) -> dict[str, Any]:
    length = rng.randint(1, config["max_model_len"] - 2)
    num_shared = rng.choice([0, length // 2, length])
    segments = [{"seed": f"f{rng.randint(0, 1)}", "len": num_shared}, {"seed": name, "len": length - num_shared}]
    request: dict[str, Any] = {
        "prompt": segments,
        "max_tokens": rng.randint(1, 12),
        "priority": rng.randint(0, 3),
        "arrival_time": 0.0,
        "ignore_eos": True,
        "stop_token_ids": [],
        "planned": [],
    }
    if config["grammar"] and rng.random() < 0.5:
        request["grammar"] = True
    if "lora" in config and rng.random() < 0.8:
        request["adapter"] = rng.randint(1, 4)
    if "encoder" in config and length > 6:
        request["images"] = [[f"image{rng.randint(0, 5)}", rng.randint(0, 3), 3], ["image9", length - 1, 1]]
    if "connector" in config and rng.random() < 0.8:
        request |= {"stored": rng.randint(0, 6) * config["block_size"], "load_steps": rng.randint(0, 4)}
        if rng.random() < 0.4:
            request["lost_from"] = rng.randint(0, 1)
        if rng.random() < 0.4:
            request |= {"send": True, "send_steps": rng.randint(0, 6)}
    return request


def _events(rng: random.Random, requests: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for name, request in requests.items():
        step = rng.randint(0, NUM_STEPS // 2)
        events.append({"step": step, "add": name})
        if "grammar" in request:
            events.append({"step": step + rng.randint(0, 9), "compiled": name})
        if rng.random() < 0.2:
            when = {"when": "before_update"} if rng.random() < 0.5 else {}
            events.append({"step": step + rng.randint(0, 9), "abort": name, **when})
    return sorted(events, key=lambda event: int(event["step"]))
