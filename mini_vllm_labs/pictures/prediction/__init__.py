"""Provides questions to answer before seeing a run, the correct answers, the score, and a deck of cards."""

from mini_vllm_labs.pictures.prediction.question import Answer, Card, Question, checked_answer, is_right

__all__ = ["Answer", "Card", "Question", "checked_answer", "is_right"]
