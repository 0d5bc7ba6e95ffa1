"""The chained hashes of some prompts: what each hash identifies, where prompts diverge, what the cache hits."""

from course.views.hash_chain.chains import hits_of
from course.views.hash_chain.picture import chain_panel, hash_chain

__all__ = ["chain_panel", "hash_chain", "hits_of"]
