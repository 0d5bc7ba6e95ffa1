"""Functions for checking the cards and the deck on serving: router, roofline, drafts, vLLM's defaults."""

from mini_vllm_labs.simulation.gpus import default_budget as default_budget
from mini_vllm_labs.simulation.gpus import find_gpu as find_gpu
from mini_vllm_labs.simulation.model_shapes import find_model_shape as find_model_shape
from mini_vllm_labs.simulation.roofline import kv_bytes_per_token as kv_bytes_per_token
from mini_vllm_labs.simulation.roofline import saturation_batch as saturation_batch
from tests.handouts.checks.phase7 import tokens_per_step as tokens_per_step
from tests.handouts.checks.routing import hit_percent as hit_percent
from tests.handouts.checks.routing import p99_ms as p99_ms
