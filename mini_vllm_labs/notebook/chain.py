"""Shows chained hashes in a notebook: phase 4's functions run in a new process; this process draws the picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from mini_vllm import EngineConfig, Lineup
from mini_vllm.assembly.parts import hash_block_for, prefix_cache_for
from mini_vllm_labs.pictures.hash_chain import hash_chain, hits_of
from mini_vllm_labs.pictures.hash_chain.chains import chains_of
from mini_vllm_labs.pictures.picture import Picture


@dataclass(frozen=True)
class HashBlocks:
    """Phase 4's results: the hashes of full blocks in order (None without phase 4), and each prompt's hit."""

    hashes: list[bytes] | None
    hits: dict[str, list[int]]


def hash_blocks(
    prompts: Mapping[str, Sequence[int]], block_size: int, salts: Mapping[str, str], lineup: Lineup
) -> HashBlocks:
    """Hash consecutive prompts with the lineup's phase 4, and look up the prompts' hits in its cache.

    Raises `ValueError` if a prompt cannot be drawn or a hash is not bytes.
    """
    cache = prefix_cache_for(lineup.prefix_cache, EngineConfig(block_size=block_size))
    hits = hits_of(prompts, cache, block_size, salts)
    theirs = hash_block_for(lineup.prefix_cache)
    if theirs is None:
        return HashBlocks(None, hits)
    chains = chains_of(prompts, block_size, theirs, salts)
    return HashBlocks([link.block_hash or b"" for chain in chains for link in chain.links], hits)


def draw_hash_blocks(
    prompts: Mapping[str, Sequence[int]], block_size: int, salts: Mapping[str, str], answers: HashBlocks
) -> Picture:
    """Draw the chains and the hits that phase 4 returned."""
    if answers.hashes is None:
        return hash_chain(prompts, block_size, salts=salts, hits=answers.hits)
    hashes = cycle(answers.hashes)  # the picture is drawn once per width, with calls in the same order each time
    return hash_chain(prompts, block_size, lambda *block: next(hashes), salts=salts, hits=answers.hits)
