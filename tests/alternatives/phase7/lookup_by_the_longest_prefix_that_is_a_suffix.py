"""As vLLM 0.13.0: the text reversed, and the failure function of Knuth, Morris and Pratt over it."""


def propose_by_lookup(
    token_ids: list[int], num_speculative_tokens: int, prompt_lookup_min: int, prompt_lookup_max: int
) -> list[int]:
    tokens = token_ids[::-1]
    matched = [0] * len(tokens)
    longest, place, length, index = 0, 0, 0, 1
    while index < len(tokens):
        if tokens[length] == tokens[index]:
            length += 1
            if length >= longest:
                longest, place = length, index
            if index < prompt_lookup_max:
                matched[index] = length
            if length == prompt_lookup_max:
                length = matched[prompt_lookup_max - 1]
            index += 1
        elif length:
            length = matched[length - 1]
        else:
            index += 1
    if longest < prompt_lookup_min:
        return []
    start = len(tokens) - 1 - place + longest
    return token_ids[start : start + num_speculative_tokens]
