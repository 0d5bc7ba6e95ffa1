"""Triton without a GPU: its interpreter, which must be selected before triton is imported for the first time."""

import os
import sys

import torch

WITHOUT_GPU = not torch.cuda.is_available()
IS_TOO_LATE = WITHOUT_GPU and "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1"
if WITHOUT_GPU:
    os.environ["TRITON_INTERPRET"] = "1"
