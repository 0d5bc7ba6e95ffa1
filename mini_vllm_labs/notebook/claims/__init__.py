"""Claims about vLLM from public texts, as a deck of cards; the learner's engine decides each."""

from mini_vllm_labs.notebook.claims.decide import all_claims, deck, setup_of

__all__ = ["all_claims", "deck", "setup_of"]
