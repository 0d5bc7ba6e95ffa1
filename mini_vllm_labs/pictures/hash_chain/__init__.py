"""Draws the chained hashes of several prompts: the content that each hash identifies, first differences, and cache
hits."""

from mini_vllm_labs.pictures.hash_chain.chains import hits_of
from mini_vllm_labs.pictures.hash_chain.picture import chain_panel, hash_chain

__all__ = ["chain_panel", "hash_chain", "hits_of"]
