#!/usr/bin/env bash
# An adapter saved by peft can compute something else when it is loaded again. Of rank_pattern and alpha_pattern the first
# matching key counts, so their order matters; save_pretrained writes the keys in alphabetical order.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q -c constraints.txt torch==2.13.0 peft==0.21.2 transformers
"$folder/venv/bin/python" - "$folder/adapter" <<'PYTHON'
import sys

import peft
import torch
from peft import LoraConfig, PeftModel, get_peft_model

folder = sys.argv[1]
print("peft", peft.__version__)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q_proj = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.q_proj(x)


patterns = {"q_proj": 32, ".*_proj": 8}  # the special case first, as one writes it
config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj"], alpha_pattern=patterns, init_lora_weights=False)
trained = get_peft_model(Model(), config)
trained.save_pretrained(folder)
loaded = PeftModel.from_pretrained(Model(), folder)
x = torch.ones(1, 8)
scales = [model.base_model.model.q_proj.scaling["default"] for model in (trained, loaded)]
difference = (trained(x) - loaded(x)).abs().max().item()
print("alpha_pattern:", patterns, "-> read back as", loaded.peft_config["default"].alpha_pattern)
print("factor when trained and when loaded:", scales, "largest difference of the outputs:", round(difference, 3))
sys.exit(scales != [8.0, 2.0] or difference < 0.01)
PYTHON
