"""What a block goes through: handed out, shared, given back with its content, found again, forgotten."""

from course.views.block_life.life_film import block_life

__all__ = ["block_life"]
