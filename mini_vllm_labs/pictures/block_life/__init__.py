"""Draws the life of a block: allocated, shared, freed with its content, hit again, evicted."""

from mini_vllm_labs.pictures.block_life.life_film import block_life

__all__ = ["block_life"]
