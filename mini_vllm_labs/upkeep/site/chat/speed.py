"""Measures how many tokens per second the built page's engine generates under Node, as the median of five runs.

Run it as `python -m mini_vllm_labs.upkeep.site.chat.speed [SITE]`.
"""

import subprocess
import sys
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT

IN_NODE = Path(__file__).with_name("in_node.mjs")
MEASURE = """
from statistics import median
from time import perf_counter
from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.assembly.lineup import parse_lineup

llm = LLM(None, EngineConfig(num_gpu_blocks=512), parse_lineup(LINEUP), dense=True)

def speed(num_chats):
    chats = [[{"role": "user", "content": f"Tell me a story about Mina and {n} kites."}] for n in range(num_chats)]
    began = perf_counter()
    llm.chat(chats, SamplingParams(max_tokens=100, ignore_eos=True))
    return 100 * num_chats / (perf_counter() - began)

for num_chats in (1, 8):
    speed(num_chats)
    print(f"{num_chats} at once: {median(speed(num_chats) for _ in range(5)):.0f} tokens/s")
"""


def script(lineup: str) -> str:
    """Return a script that prints a lineup's speed with one chat and with eight chats."""
    return f"LINEUP = {lineup!r}\n{MEASURE}"


def main() -> None:
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKOUT / "build/site"
    if not (site / "chat/engine.zip").exists():
        sys.exit(f"error: {site} has no chat/engine.zip: build the site with `make site`")
    subprocess.run(["node", IN_NODE, site], input=script("solution:1-5"), text=True, check=True)


if __name__ == "__main__":
    main()
