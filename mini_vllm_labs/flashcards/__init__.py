"""Provides sixty questions to learn by heart; each answer contains a figure measured by a check of the course."""

from mini_vllm_labs.flashcards.cards import Flashcard, all_cards, anki

__all__ = ["Flashcard", "all_cards", "anki"]
