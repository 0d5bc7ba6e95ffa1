"""Drafts, step by step: what was guessed, what the target sampled, and which slots it took."""

from mini_vllm_labs.pictures.drafts.draft_film import draft_film

__all__ = ["draft_film"]
