"""Drafts, step by step: what was guessed, what the target said, and which slots it took."""

from course.views.drafts.draft_film import draft_film, telling_step

__all__ = ["draft_film", "telling_step"]
