"""Turns public claims about vLLM into a deck of cards, each decided by the learner's engine."""

from mini_vllm_labs.notebook.claims.decide import all_claims, deck, seats_deck, setup_of

__all__ = ["all_claims", "deck", "seats_deck", "setup_of"]
