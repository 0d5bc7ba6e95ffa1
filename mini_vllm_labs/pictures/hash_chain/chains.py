"""Splits prompts into blocks, each with its hash and the content that it identifies, and looks up cache hits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice

from mini_vllm.core.interfaces import HashBlock, PrefixCache
from mini_vllm.core.request import Request
from mini_vllm_labs.pictures.text import ordinal
from mini_vllm_labs.runs.palette import label

ROOT_HASH = bytes(32)


@dataclass(frozen=True)
class Link:
    """A full block of a prompt.

    `content` is what the hash should identify: the salt and every token up to the end of the block. `first` is the
    number of the first prompt that has this hash in any block or, without hashes, this content.
    """

    token_ids: tuple[int, ...]
    content: tuple[object, ...]
    block_hash: bytes | None
    first: int
    same_as: tuple[int, int]


@dataclass(frozen=True)
class Chain:
    """A prompt's full blocks in order, and the tokens of its last block if that block is not full."""

    name: str
    salt: str | None
    links: Sequence[Link]
    rest: Sequence[int]
    token_ids: Sequence[int]

    @property
    def keys(self) -> list[str]:
        """The extra keys in the hash of the first block, as text."""
        return [f"salt {self.salt}"] if self.salt is not None else []


def chains_of(
    prompts: Mapping[str, Sequence[int]], block_size: int, hash_block: HashBlock | None, salts: Mapping[str, str]
) -> list[Chain]:
    """Return the chains in order. Without `hash_block`, links have no hash and are distinguished by content.

    Raises `ValueError` if the block size is below 1, there are no prompts, a salt's prompt is unknown, or a hash is not
    bytes.
    """
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}, but a block must hold at least 1 token")
    if not prompts:
        raise ValueError("prompts is empty, but a chain needs at least one prompt")
    if unknown := set(salts) - set(prompts):
        raise ValueError(
            f"salts contains the names {', '.join(sorted(unknown))}, but the prompts are {', '.join(prompts)}"
        )
    seen: dict[object, tuple[int, int]] = {}
    chains = []
    for number, (name, token_ids) in enumerate(prompts.items()):
        salt = salts.get(name)
        links: list[Link] = []
        parent = ROOT_HASH
        for start in range(0, len(token_ids) - block_size + 1, block_size):
            tokens = tuple(token_ids[start : start + block_size])
            content = (salt, *token_ids[: start + block_size])
            found = None
            if hash_block is not None:
                # computed once, because every later hash includes it
                found = hash_block(parent, tokens, () if links else (salt, None))
                if not isinstance(found, bytes):
                    raise ValueError(f"hash_block returned {found!r:.60}, but a hash must be bytes")
                parent = found
            same_as = seen.setdefault(content if found is None else found, (number, len(links)))
            links.append(Link(tokens, content, found, same_as[0], same_as))
        chains.append(Chain(name, salt, links, token_ids[len(links) * block_size :], token_ids))
    return chains


def digest(link: Link, num_digits: int) -> str:
    """Return the first digits of a link's hash or, without a hash, a name for its content: A2, B1, ..."""
    if link.block_hash is not None:
        return link.block_hash.hex()[:num_digits]
    number, place = link.same_as
    return f"{label(number)}{place + 1}"


@dataclass(frozen=True)
class WrongHash:
    """An incorrect hash for block `place` of prompt `number`."""

    number: int
    place: int
    text: str


def faults(chains: Sequence[Chain]) -> list[WrongHash]:
    """Find each hash shared by two different contents, and each content that has a second hash."""
    by_hash: dict[bytes, tuple[str, object]] = {}
    by_content: dict[object, tuple[str, bytes]] = {}
    found = []
    for number, chain in enumerate(chains):
        for place, link in enumerate(chain.links):
            if link.block_hash is None:
                continue
            here = f"the {ordinal(place + 1)} block of {chain.name}"
            there, content = by_hash.setdefault(link.block_hash, (here, link.content))
            if content != link.content:
                found.append(WrongHash(number, place, f"{here} has the hash of {there} but a different prefix or keys"))
            there, block_hash = by_content.setdefault(link.content, (here, link.block_hash))
            if block_hash != link.block_hash:
                found.append(WrongHash(number, place, f"{here} has the same content as {there} but a different hash"))
    return found


def num_alike(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


@dataclass(frozen=True)
class Kin:
    """The most similar earlier chain, how many blocks the two share, and the position of the first differing token."""

    chain: Chain
    num_common: int
    place: int
    differs: bool


def kin(chains: Sequence[Chain], number: int) -> Kin | None:
    """Return the earlier chain with the most leading blocks (then tokens) in common, or None for the first chain."""
    if number == 0:
        return None
    here = chains[number]

    def alike(other: Chain) -> tuple[int, int]:
        blocks = [[link.same_as for link in chain.links] for chain in (here, other)]
        return num_alike(blocks[0], blocks[1]), num_alike(here.token_ids, other.token_ids)

    other = max(chains[:number], key=alike)
    num_common, place = alike(other)
    return Kin(other, num_common, place, place < min(len(here.token_ids), len(other.token_ids)))


def hits_of(
    prompts: Mapping[str, Sequence[int]], cache: PrefixCache, block_size: int, salts: Mapping[str, str] | None = None
) -> dict[str, list[int]]:
    """Look up each prompt's hit in a phase-4 cache, then add its blocks as if it had been served.

    Returns the blocks of each hit, keyed by prompt name. Every prompt gets new blocks after its hit, numbered 1, 2, 3,
    ...
    """
    found: dict[str, list[int]] = {}
    new_blocks = count(1)
    for name, token_ids in prompts.items():
        request = Request(name, list(token_ids), cache_salt=(salts or {}).get(name))
        hit = found[name] = cache.find_longest_cache_hit(request)
        num_full = len(token_ids) // block_size
        table = [*hit, *islice(new_blocks, max(0, num_full - len(hit)))]
        cache.cache_full_blocks(request, table, len(hit), num_full)
    return found
