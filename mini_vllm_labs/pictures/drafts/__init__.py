"""Draws drafts step by step: the guessed tokens, the tokens that the target sampled, and the slots used."""

from mini_vllm_labs.pictures.drafts.draft_film import draft_film

__all__ = ["draft_film"]
