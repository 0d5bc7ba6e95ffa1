"""Turns public claims about vLLM into a deck of cards; the learner's engine decides each claim."""

from mini_vllm_labs.notebook.claims.decide import all_claims, deck, seats_deck, setup_of

__all__ = ["all_claims", "deck", "seats_deck", "setup_of"]
