"""Provides sixty questions to memorise; each answer contains a figure that one of the course's checks measured."""

from mini_vllm_labs.flashcards.cards import Flashcard, all_cards, anki

__all__ = ["Flashcard", "all_cards", "anki"]
