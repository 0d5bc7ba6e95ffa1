"""The chains in words: what is alike, where they part, what is found."""

from collections.abc import Mapping, Sequence

from course.views.hash_chain.chains import Chain, digest, faults, num_alike, num_common
from course.views.time_machine.words import ranges

DIGITS = 8
MOST_SENTENCES = 3


def kinship(chains: Sequence[Chain], number: int) -> str:
    """Return what a chain has of one above it, and where the two part; nothing for the first one."""
    here = chains[number]
    if number == 0:
        return ""
    if not here.links:
        return "no full block, so no hash"
    other = max(
        chains[:number], key=lambda chain: (num_common(here, chain), num_alike(here.token_ids, chain.token_ids))
    )
    common, place = num_common(here, other), num_alike(here.token_ids, other.token_ids)
    blocks = f"{common} blocks" if common > 1 else "block"
    told = f"the first {blocks} of {other.name}" if common else "no block of those above"
    if common == 0 and here.extra_keys != other.extra_keys and place >= len(here.links[0].token_ids):
        return f"{told}: {other.name}'s tokens, but other keys"
    if place < min(len(here.token_ids), len(other.token_ids)):
        divergence = f"token {place} is {here.token_ids[place]}, not {other.token_ids[place]}"
        return f"{told}, then {divergence}" if common else f"{told}: {divergence}"
    if len(here.token_ids) == len(other.token_ids):
        return f"{told}, and nothing differs"
    return f"{told}, then {here.name if len(here.token_ids) < len(other.token_ids) else other.name} ends"


def lookalikes(chains: Sequence[Chain], number: int) -> list[int]:
    """Return the blocks with the tokens of an earlier chain's block in the same place, and another hash."""
    here = chains[number]
    return [
        place
        for place, link in enumerate(here.links)
        if any(
            place < len(chain.links)
            and chain.links[place].token_ids == link.token_ids
            and chain.links[place].same_as != link.same_as
            for chain in chains[:number]
        )
        and link.first == number
    ]


def found_words(chain: Chain, blocks: Sequence[int], block_size: int) -> str:
    """Return how much of a prompt is found in the cache, and in which blocks."""
    if not blocks:
        return f"hit 0 of {len(chain.token_ids)} tokens"
    where = f"block{'s' * (len(blocks) > 1)} {ranges(blocks)}"
    return f"hit {len(blocks) * block_size} of {len(chain.token_ids)} tokens, {where}"


def keys_words(chain: Chain) -> str:
    """Return the extra keys that go into the first block."""
    named = zip(("salt", "adapter"), chain.extra_keys, strict=True)
    return ", ".join(f"{name} {value}" for name, value in named if value is not None)


def describe_chains(chains: Sequence[Chain], hits: Mapping[str, Sequence[int]], block_size: int) -> str:
    """Return what is worth knowing: wrong hashes first, then who shares what, then what is found."""
    told = [f"{fault.words[0].upper()}{fault.words[1:]}." for fault in faults(chains)]
    for number, chain in enumerate(chains[1:], start=1):
        told.append(f"{chain.name} has {kinship(chains, number)}.")
        if alike := lookalikes(chains, number):
            word = f"block {alike[0]} has" if len(alike) == 1 else f"blocks {' '.join(map(str, alike))} have"
            told.append(f"Its {word} the same tokens as above and another hash, for what stands before differs.")
    if not told:
        num_full = len(chains[0].links)
        told = [
            f"{chains[0].name} has {num_full} full block{'s' * (num_full != 1)}, each with a hash of all before it."
        ]
    if hits:
        best = max(chains, key=lambda chain: len(hits.get(chain.name, ())))
        told.insert(2, f"{best.name} waits: {found_words(best, hits.get(best.name, ()), block_size)}.")
    return " ".join(told[:MOST_SENTENCES])


def twin(chains: Sequence[Chain], hits: Mapping[str, Sequence[int]], block_size: int) -> str:
    """Return all chains as lines of text."""
    hashed = any(link.block_hash is not None for chain in chains for link in chain.links)
    lines = [
        f"blocks of {block_size} tokens, {'the first digits of each hash' if hashed else 'no hashes: equal content'}"
    ]
    for number, chain in enumerate(chains):
        keys = f", {keys_words(chain)}" if keys_words(chain) else ""
        lines.append(
            f"{chain.name}: {counted(len(chain.token_ids), 'token')}, {counted(len(chain.links), 'full block')}{keys}"
        )
        alike = lookalikes(chains, number)
        for place, link in enumerate(chain.links):
            tokens = " ".join(map(str, link.token_ids))
            same = ""
            if link.same_as != (number, place):
                same = f", as block {link.same_as[1]} of {chains[link.first].name}"
            other = ", the same tokens as above, another hash" if place in alike else ""
            lines.append(f"  {chain.name} block {place}: {digest(link, DIGITS)} = {tokens}{same}{other}")
        if chain.rest:
            lines.append(f"  {chain.name} rest: {' '.join(map(str, chain.rest))}, not full, no hash")
        if number:
            lines.append(f"  {chain.name} has: {kinship(chains, number)}")
        if chain.name in hits:
            lines.append(f"  {chain.name} finds: {found_words(chain, hits[chain.name], block_size)}")
    return "\n".join([*lines, *[f"wrong: {fault.words}" for fault in faults(chains)]])


def counted(number: int, thing: str) -> str:
    """Return how many things there are, in words."""
    return f"{number} {thing}{'s' * (number != 1)}"
