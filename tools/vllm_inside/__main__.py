"""`python -m tools.vllm_inside`: is the scheduler of `LAB_IMPL` one that vLLM 0.13.0 can run on? No GPU is needed.

vLLM's own unit tests, 200 requests through its engine, and the CPU time of a step, each beside its stock scheduler.
`python -m tools.vllm_peer` makes the environment.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bench import peer_process
from bench.peer_process import VLLM_PYTHON
from mini_vllm.assembly.lineup import CHECKOUT, default_lineup_text
from tools.vllm_inside.unit_tests import compare, explanations, run

NUM_ROUNDS = 5
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
    """Print the three comparisons; return 1 if a failure is unexplained or a text differs."""
    if (reason := peer_process.why_missing(peer_process.VLLM)) is not None:
        sys.exit(reason)
    base = os.environ.get("LAB_IMPL") or default_lineup_text()
    # The electives that vLLM's tests ask for join a lineup that names the course's phases alone.
    lineup = f"{base}:1-5,{base}:7-8" if base in ("starter", "solution") else base
    with tempfile.TemporaryDirectory() as place:
        return max(tests(lineup, Path(place)), engine(lineup, Path(place)))


def tests(lineup: str, folder: Path) -> int:
    print(f"vLLM 0.13.0's own tests of its scheduler, LAB_IMPL={lineup}", flush=True)
    stock, ours = run("stock", lineup, folder), run("ours", lineup, folder)
    explained, wrong = compare(stock, ours, explanations())
    for name, results in (("stock", stock), ("ours", ours)):
        print(f"  {name}: {sum(not problem for problem in results.values())} of {len(results)} pass")
    print(f"  {sum(map(bool, stock.values()))} fail with both: files of a multimodal model are not here")
    for name, reason in explained.items():
        print(f"  {name}: {reason}")
    for problem in wrong:
        print(f"  UNEXPLAINED {problem}")
    return bool(wrong)


def engine(lineup: str, folder: Path) -> int:
    (folder / "config.json").write_text(json.dumps(TINY))
    served("ours", lineup, folder, checks="1")  # what breaks an invariant is named here, not by a wrong text
    pairs = [(served("stock", lineup, folder), served("ours", lineup, folder)) for _ in range(NUM_ROUNDS)]
    stock, ours = pairs[0]
    equal = stock["texts"] == ours["texts"]
    print(f"\nvLLM's EngineCore and output processor, {len(ours['texts'])} requests, an executor that checks K and V")
    for one in (stock, ours):
        print(f"  {one['class']}: {one['steps']} steps, {one['num_preempted']} preemptions")
    ratios = [mine["seconds"] / theirs["seconds"] for theirs, mine in pairs]
    found = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {NUM_ROUNDS} rounds in turns)"
    print(f"  tokens {'equal' if equal else 'DIFFER'}; CPU time of a step {found} of the stock one")
    return not equal


def served(scheduler: str, lineup: str, folder: Path, checks: str = "0") -> dict[str, Any]:
    """Return what `tools.vllm_inside.served` found. Ends the command with the last lines of a process that fails."""
    variables = {**os.environ, "LAB_IMPL": lineup, "LAB_CHECKS": checks, "PYTHONHASHSEED": "0"}
    command = [str(VLLM_PYTHON), "-m", "tools.vllm_inside.served", scheduler, str(folder)]
    done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("\n".join(done.stderr.strip().splitlines()[-12:]))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
