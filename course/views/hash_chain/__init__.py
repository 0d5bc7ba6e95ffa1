"""The chained hashes of some prompts: what each hash identifies, where prompts diverge, what the cache hits."""

from course.views.hash_chain.hits import hits_of
from course.views.hash_chain.picture import hash_chain
from course.views.hash_chain.what_if import chain_panel

__all__ = ["chain_panel", "hash_chain", "hits_of"]
