"""Slides for teachers, from `docs/decks/`."""
