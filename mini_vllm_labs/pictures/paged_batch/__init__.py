"""Draws a step as the model runner sees it: tokens in a row, slots, block tables, and each query's reads."""

from mini_vllm_labs.pictures.paged_batch.batch_film import example_batch, paged_batch

__all__ = ["example_batch", "paged_batch"]
