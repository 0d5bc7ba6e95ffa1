"""Shows how the token budget and the threshold for long prompts affect the latency of thousands of requests."""

from mini_vllm_labs.pictures.chunking_dial.drawing import chunking_dial, chunking_picture
from mini_vllm_labs.pictures.chunking_dial.trial import Deployment, Setting, try_setting

__all__ = ["Deployment", "Setting", "chunking_dial", "chunking_picture", "try_setting"]
