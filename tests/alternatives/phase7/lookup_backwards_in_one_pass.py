"""One pass over the text: at each place as many tokens are compared backwards as match; the longest run wins."""


def propose_by_lookup(
    token_ids: list[int], num_speculative_tokens: int, prompt_lookup_min: int, prompt_lookup_max: int
) -> list[int]:
    size, best, behind = len(token_ids), 0, -1
    for end in range(size - 1):
        length = 0
        while length < prompt_lookup_max and length <= end and token_ids[end - length] == token_ids[size - 1 - length]:
            length += 1
        if length > best:
            best, behind = length, end + 1
    if best < prompt_lookup_min:
        return []
    return token_ids[behind : behind + num_speculative_tokens]
