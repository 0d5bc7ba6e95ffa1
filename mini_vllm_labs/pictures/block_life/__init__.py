"""Draws a block's life: allocated, shared, freed with its content intact, hit again, evicted."""

from mini_vllm_labs.pictures.block_life.life_film import block_life

__all__ = ["block_life"]
