"""Tokens become characters, and Python's own search finds the earlier occurrence."""


def propose_by_lookup(
    token_ids: list[int], num_speculative_tokens: int, prompt_lookup_min: int, prompt_lookup_max: int
) -> list[int]:
    text = "".join(map(chr, token_ids))
    for length in range(prompt_lookup_max, prompt_lookup_min - 1, -1):
        if length >= len(text):
            continue
        at = text.find(text[len(text) - length :], 0, len(text) - 1)
        if at >= 0:
            return [ord(one) for one in text[at + length : at + length + num_speculative_tokens]]
    return []
