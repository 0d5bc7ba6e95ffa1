"""Draws a step as the model runner sees it: a row of tokens, slots, block tables, and the slots that queries read."""

from mini_vllm_labs.pictures.paged_batch.batch_film import example_batch, paged_batch

__all__ = ["example_batch", "paged_batch"]
