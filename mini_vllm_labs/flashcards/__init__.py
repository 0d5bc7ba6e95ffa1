"""Sixty questions to learn by heart, each answer filled in from what a check of the course has found."""

from mini_vllm_labs.flashcards.cards import Flashcard, all_cards, anki

__all__ = ["Flashcard", "all_cards", "anki"]
