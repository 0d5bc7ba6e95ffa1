"""Checks whether vLLM 0.13.0 can run with the scheduler of `LAB_IMPL`. No GPU is needed.

Run it as `python -m mini_vllm_labs.upkeep.vllm_inside`.

The command runs vLLM's unit tests, sends 200 requests through its engine, measures the CPU time of a step, and compares
all results with the stock scheduler's. `python -m mini_vllm_labs.upkeep.vllm_peer` creates the environment. With
`--gpu` and the Python of a complete vLLM installation, it compares the tokens generated for 20 prompts.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT, default_lineup_text
from mini_vllm.environment import LAB_IMPL
from mini_vllm_labs.bench import peer_process
from mini_vllm_labs.bench.peer_process import VLLM_PYTHON
from mini_vllm_labs.upkeep.vllm_inside.unit_tests import FILES, SLOW, compare, explanations, run

NUM_ROUNDS = 5
MODEL = "Qwen/Qwen3-0.6B"
TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "max_position_embeddings": 4096,
    "vocab_size": 2048,
    "torch_dtype": "float16",
}


def main() -> int:
    """Print the comparisons, and return 1 if there is an unexplained failure or a text differs."""
    parser = argparse.ArgumentParser(
        prog="python -m mini_vllm_labs.upkeep.vllm_inside", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--slow", action="store_true", help="vLLM's random tests alone, three minutes")
    parser.add_argument("--gpu", nargs="?", const=MODEL, metavar="MODEL", help=f"20 prompts on a GPU; default: {MODEL}")
    asked = parser.parse_args()
    base = LAB_IMPL.get() or default_lineup_text()
    # A lineup that names only an implementation also includes the electives that vLLM's tests need.
    lineup = f"{base}:1-5,{base}:7-8" if base in ("starter", "solution") else base
    if asked.gpu:
        return on_gpu(lineup, asked.gpu)
    if (reason := peer_process.why_missing(peer_process.VLLM)) is not None:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as place:
        if asked.slow:
            return tests(lineup, Path(place), SLOW)
        return max(tests(lineup, Path(place), FILES), engine(lineup, Path(place)))


def tests(lineup: str, folder: Path, files: Sequence[str]) -> int:
    print(f"vLLM 0.13.0's own tests of its scheduler, LAB_IMPL={lineup}", flush=True)
    stock, ours = (run(scheduler, lineup, folder, files) for scheduler in ("stock", "ours"))
    explained, wrong = compare(stock, ours, explanations(files))
    for name, results in (("stock", stock), ("ours", ours)):
        print(f"  {name}: {sum(not problem for problem in results.values())} of {len(results)} pass")
    if num_failed := sum(map(bool, stock.values())):
        print(f"  {num_failed} fail with both: files of a multimodal model are not here")
    for name, reason in explained.items():
        print(f"  {name}: {reason}")
    for problem in wrong:
        print(f"  UNEXPLAINED {problem}")
    return bool(wrong)


def engine(lineup: str, folder: Path) -> int:
    (folder / "config.json").write_text(json.dumps(TINY))
    pairs = answer("served", str(NUM_ROUNDS), lineup, folder)
    stock, ours = pairs[0]
    equal = stock["texts"] == ours["texts"]
    print(f"\nvLLM's EngineCore and output processor, {len(ours['texts'])} requests, an executor that checks K and V")
    for one in (stock, ours):
        print(f"  {one['class']}: {one['steps']} steps, {one['num_preempted']} preemptions")
    ratios = [mine["seconds"] / theirs["seconds"] for theirs, mine in pairs]
    found = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {NUM_ROUNDS} rounds in turns)"
    print(f"  tokens {'equal' if equal else 'DIFFER'}; CPU time of a step {found} of the stock one")
    return not equal


def on_gpu(lineup: str, model: str) -> int:
    """Compare the tokens of a real model. Exits with a message if there is no GPU or no vLLM."""
    import torch

    if not torch.cuda.is_available():
        sys.exit("There is no GPU here: the 20 prompts were not run. Without --gpu this command needs none.")
    if importlib.util.find_spec("vllm") is None:
        sys.exit(f"{sys.executable} has no vLLM: run this with the Python of an environment that has vLLM 0.13.0")
    stock, ours = (answer("generated", name, lineup, model, sys.executable) for name in ("stock", "ours"))
    print("\n".join(compared(stock, ours)))
    return int(stock["tokens"] != ours["tokens"])


def compared(stock: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Return lines with the number of identical answers and, for each other answer, the first token that differs."""
    pairs = list(zip(stock["tokens"], ours["tokens"], strict=True))
    found = [f"{sum(a == b for a, b in pairs)} of {len(pairs)} answers have the same tokens"]
    found += [f"  {one['num_preempted']} preemptions, {name}" for name, one in (("stock", stock), ("ours", ours))]
    for number, (a, b) in enumerate(pairs):
        if a != b:
            first = [mine == theirs for mine, theirs in zip(b, a, strict=True)].index(False)
            found.append(f"  prompt {number} differs from token {first} on")
    return found


def answer(module: str, what: str, lineup: str, place: object, python: object = VLLM_PYTHON) -> Any:
    """Run a module of this package and return its result. Exits with the last lines of output if the process fails."""
    environment = {**os.environ, "LAB_IMPL": lineup, "LAB_CHECKS": "0", "PYTHONHASHSEED": "0"}
    command = [str(python), "-m", f"mini_vllm_labs.upkeep.vllm_inside.{module}", what, str(place)]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("\n".join(done.stderr.strip().splitlines()[-12:]))
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
