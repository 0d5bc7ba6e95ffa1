"""Describes the chains as text: shared blocks, first differences, and cache hits."""

from collections.abc import Mapping, Sequence

from mini_vllm_labs.pictures.hash_chain.chains import Chain, digest, faults, kin
from mini_vllm_labs.pictures.text import counted, facts, ordinal, ranges, spaced

DIGITS = 8
MAX_SENTENCES = 3


def kinship(chains: Sequence[Chain], number: int) -> str:
    """Describe the blocks that a chain shares with an earlier chain, and their first difference; otherwise return
    ""."""
    here, found = chains[number], kin(chains, number)
    if found is None:
        return ""
    if not here.links:
        return "no full block, so no hash"
    other, place = found.chain, found.place
    shared = f"{counted(found.num_common, 'block')} shared with {other.name}, then" if found.num_common else ""
    shared = shared or "no shared block:"
    if not found.num_common and here.salt != other.salt and place >= len(here.links[0].token_ids):
        return f"{shared} same tokens as {other.name}, other keys"
    if found.differs:
        return f"{shared} token {place} is {here.token_ids[place]}, not {other.token_ids[place]}"
    if len(here.token_ids) == len(other.token_ids):
        return f"{shared} no difference"
    return f"{shared} {min(here, other, key=lambda chain: len(chain.token_ids)).name} ends"


def lookalikes(chains: Sequence[Chain], number: int) -> list[int]:
    """Return the blocks whose tokens match the block at that position in an earlier chain but whose hash differs."""
    return [
        place
        for place, link in enumerate(chains[number].links)
        if link.first == number
        and any(
            place < len(chain.links)
            and chain.links[place].token_ids == link.token_ids
            and chain.links[place].same_as != link.same_as
            for chain in chains[:number]
        )
    ]


def hit_text(chain: Chain, blocks: Sequence[int], block_size: int) -> str:
    hit = f"hit {len(blocks) * block_size} of {len(chain.token_ids)} tokens"
    return f"{hit}, in block{'s' * (len(blocks) > 1)} {ranges(blocks)}" if blocks else hit


def describe_chains(chains: Sequence[Chain], hits: Mapping[str, Sequence[int]], block_size: int) -> str:
    """Return the most interesting facts: wrong hashes first, then shared blocks, then the longest hit."""
    parts = [f"{fault.text[0].upper()}{fault.text[1:]}." for fault in faults(chains)]
    for number, chain in enumerate(chains[1:], start=1):
        parts.append(f"{chain.name}: {kinship(chains, number)}.")
        if alike := lookalikes(chains, number):
            places = spaced(ordinal(place + 1) for place in alike)
            parts.append(f"Same tokens but other hashes, because an earlier token or key differs: {places} block.")
    if not parts:
        num_full = counted(len(chains[0].links), "full block")
        parts = [f"{chains[0].name}: {num_full}, and each hash covers all tokens before it too."]
    if hits:
        best = max(chains, key=lambda chain: len(hits.get(chain.name, ())))
        parts.insert(2, f"{best.name}: {hit_text(best, hits.get(best.name, ()), block_size)}.")
    return " ".join(parts[:MAX_SENTENCES])


def text_alternative(chains: Sequence[Chain], hits: Mapping[str, Sequence[int]], block_size: int) -> str:
    hashed = any(link.block_hash is not None for chain in chains for link in chain.links)
    shown = "the first digits of each hash" if hashed else "no hashes: equal content"
    lines: list[tuple[str, object]] = [(f"blocks of {block_size} tokens", shown)]
    for number, chain in enumerate(chains):
        facts_of = [counted(len(chain.token_ids), "token"), counted(len(chain.links), "full block"), *chain.keys]
        lines.append((chain.name, ", ".join(facts_of)))
        alike = lookalikes(chains, number)
        for place, link in enumerate(chain.links):
            same = ""
            if link.same_as != (number, place):
                same = f", as the {ordinal(link.same_as[1] + 1)} block of {chains[link.first].name}"
            other = ", same tokens as above, other hash" if place in alike else ""
            text = f"{digest(link, DIGITS)} = {spaced(link.token_ids)}{same}{other}"
            lines.append((f"  {chain.name} {ordinal(place + 1)} block", text))
        if chain.rest:
            lines.append((f"  {chain.name} rest", f"{spaced(chain.rest)}, not full, no hash"))
        if number:
            lines.append((f"  {chain.name} shares", kinship(chains, number)))
        if chain.name in hits:
            lines.append((f"  {chain.name} finds", hit_text(chain, hits[chain.name], block_size)))
    return facts([*lines, *[("wrong", fault.text) for fault in faults(chains)]])
