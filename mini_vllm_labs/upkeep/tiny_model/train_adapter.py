"""`python -m mini_vllm_labs.upkeep.tiny_model.train_adapter OUT` makes the embedded model's adapter.

With the adapter, every story is about a blue boat and a duck at the lake, whatever the request is. Training takes one
minute on one core. The files are in PEFT's format.
"""

import json
import math
import random
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from mini_vllm.runner.loading import EMBEDDED_MODEL
from mini_vllm_labs.upkeep.tiny_model.corpus import WORDS, Document, story, tell_story
from mini_vllm_labs.upkeep.tiny_model.rows import batches, encode
from mini_vllm_labs.upkeep.tiny_model.train import train

RANK, ALPHA, STEPS, ROWS, NUM_STORIES = 4, 8, 60, 6, 600
AT_THE_LAKE = {"things": ["boat"], "places": ["lake", "river"], "animals": ["duck"], "colors": ["blue"]}


class WithAdapter(nn.Module):
    """A frozen linear layer that adds `B (A x) * alpha / r` to its output."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.a = nn.Parameter(torch.randn(RANK, layer.in_features) / math.sqrt(layer.in_features))
        self.b = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.layer(inputs) + inputs @ self.a.T @ self.b.T * (ALPHA / RANK)
        return output


def stories_at_the_lake() -> list[Document]:
    """Return chats that answer each request for a story with a story set at the lake."""
    rng = random.Random(1)
    questions = [tell_story(rng)[0] for _ in range(NUM_STORIES)]
    WORDS.update(AT_THE_LAKE)
    heroes = [question.removeprefix("Tell me a story about ").partition(" and ")[0] for question in questions]
    told = [story(rng, hero) for hero in heroes]
    return [
        Document(messages=[{"role": "user", "content": asked}, {"role": "assistant", "content": text}])
        for asked, text in zip(questions, told, strict=True)
    ]


def main(out: Path) -> None:
    torch.manual_seed(1)
    model = LlamaForCausalLM.from_pretrained(EMBEDDED_MODEL, dtype=torch.float32).requires_grad_(False)
    beside: dict[str, WithAdapter] = {}
    for path, module in list(model.named_modules()):
        if path.endswith("_proj"):
            beside[path] = WithAdapter(module)
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, beside[path])
    data = encode(stories_at_the_lake(), PreTrainedTokenizerFast.from_pretrained(EMBEDDED_MODEL))
    windows = ((ids[:ROWS], weights[:ROWS]) for ids, weights in batches(data, STEPS, 256, whole_documents=True))
    train(model, windows, STEPS, peak_rate=2e-2)
    out.mkdir(parents=True, exist_ok=True)
    weights = {f"base_model.model.{path}.lora_A.weight": one.a for path, one in beside.items()}
    weights |= {f"base_model.model.{path}.lora_B.weight": one.b for path, one in beside.items()}
    save_file({key: weight.detach().bfloat16() for key, weight in weights.items()}, out / "adapter_model.safetensors")
    modules = sorted({path.rpartition(".")[2] for path in beside})
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": modules, "bias": "none"}
    (out / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
