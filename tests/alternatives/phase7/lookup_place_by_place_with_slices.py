"""The rule as it is written: every length, every place, a slice at each."""


def propose_by_lookup(
    token_ids: list[int], num_speculative_tokens: int, prompt_lookup_min: int, prompt_lookup_max: int
) -> list[int]:
    drafts: list[int] = []
    length = min(prompt_lookup_max, len(token_ids) - 1)
    while length >= prompt_lookup_min and not drafts:
        newest = tuple(token_ids[len(token_ids) - length :])
        for start in range(0, len(token_ids) - length):
            if tuple(token_ids[start : start + length]) == newest:
                for place in range(start + length, len(token_ids)):
                    if len(drafts) < num_speculative_tokens:
                        drafts.append(token_ids[place])
                break
        length -= 1
    return drafts
