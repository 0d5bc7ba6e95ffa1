"""A step as the model runner sees it: one row of tokens, slots, block tables, and what each query reads."""

from mini_vllm_labs.pictures.paged_batch.batch_film import example_batch, paged_batch

__all__ = ["example_batch", "paged_batch"]
