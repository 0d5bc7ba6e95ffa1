"""A step as the model runner sees it: one row of tokens, slots, block tables, and what each query reads."""

from course.views.paged_batch.batch_film import example_batch, paged_batch

__all__ = ["example_batch", "paged_batch"]
