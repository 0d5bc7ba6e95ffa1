"""Slides for teachers, made from `docs/decks/`."""
