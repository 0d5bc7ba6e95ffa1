"""Runs phase 9's cases for the graded tests and the judge; each function returns its observations."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from random import Random
from types import ModuleType
from typing import Any

import numpy as np

from mini_vllm.electives.automaton import MAX_DFA_STATES, START, TERMINATED, Dfa, build_nfa, build_trie
from mini_vllm.electives.regex import parse_regex

Seen = dict[str, object]  # plain JSON
WORDS = tuple(text.encode() for text in ("a", "b", "c", "ab", "bc", "abc", "ba", "", "aa", "x", "cab", "é", "", "a"))
NAMES = {token: f"{token} {text.decode()}" for token, text in enumerate(WORDS) if text}
ALSO_GIVEN = (", ".join(NAMES.values()),)  # the vocabulary


def steps(phase9: ModuleType, regex: str, text: str) -> Seen:
    """Read a text byte by byte; report the automaton's positions after each byte."""
    nfa, seen, now = build_nfa(parse_regex(regex)), dict[str, object](), frozenset({START})
    for number, byte in enumerate(text.encode(), start=1):
        now = phase9.next_positions(nfa, frozenset(now), byte)
        seen[f"{number}: positions after {bytes([byte])!r}"] = sorted(map(int, now))
        seen["type of the answer"] = type(now).__name__
    return seen | {"the automaton": "as before" if nfa == build_nfa(parse_regex(regex)) else "changed"}


def walks(phase9: ModuleType, regex: str, alphabet: str, texts: Sequence[Any]) -> Seen:
    """Walk each text through the DFA; report how far it gets and whether it may end there, or a `ValueError`.

    A long text is given as its start, the number of times the start is repeated, and its end.
    """
    chars = frozenset(range(256) if alphabet == "all" else alphabet.encode())
    try:
        dfa = phase9.build_dfa(build_nfa(parse_regex(regex)), chars)
    except ValueError as error:
        names_limit = str(MAX_DFA_STATES) in str(error).replace(",", "")
        return {"build_dfa": f"a ValueError that names {MAX_DFA_STATES:,}" if names_limit else f"ValueError: {error}"}
    return {_named(text): _walked(dfa, _whole(text).encode()) for text in texts}


def _named(text: Any) -> str:
    return repr(text) if isinstance(text, str) else f"{text[1]} times {text[0]!r}, then {text[2]!r}"


def _whole(text: Any) -> str:
    return text if isinstance(text, str) else text[0] * text[1] + text[2]


def _walked(dfa: Dfa, text: bytes) -> str:
    state, num_states = START, len(dfa.transitions)
    for number, byte in enumerate(text, start=1):
        if state < num_states and byte not in dfa.transitions[state]:
            return f"byte {number} cannot be read"
        state = dfa.transitions[state][byte] if state < num_states else state
    if state >= num_states:
        return f"state {state} is not there: there are {num_states}"
    return "may end" if state in dfa.accepting else "must go on"


class CountedRows(list[dict[int, int]]):
    """The rows of a DFA, with a count of how often they are read."""

    num_reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.num_reads += 1
        return super().__getitem__(place)


def masks(
    phase9: ModuleType, rows: Sequence[dict[str, int]], accepting: Sequence[int], ends: Sequence[int], size: int
) -> Seen:
    """Get each state's tokens twice, for the vocabulary `WORDS` with `size` logits per row."""
    counted = CountedRows({ord(char): after for char, after in row.items()} for row in rows)
    dfa, seen, kept = Dfa(counted, frozenset(accepting)), dict[str, object](), dict[int, Any]()
    found = phase9.RegexTokenMasks(dfa, build_trie(WORDS), size, frozenset(ends))
    seen["worked out before a question"] = counted.num_reads > 0
    for state in (*range(len(rows)), TERMINATED):
        name, answer = "TERMINATED" if state == TERMINATED else state, found.next_states(state)
        for part, tokens in (("", answer.keys() - set(ends)), (": ends of text", answer.keys() & set(ends))):
            texts = [f"{NAMES.get(token, token)} to {int(answer[token])}" for token in sorted(tokens)]
            seen[f"next_states({name}){part}"] = ", ".join(texts) or "none"
        kept[state] = found.bitmask_row(state)
        bits = [32 * place + bit for place, word in enumerate(kept[state]) for bit in range(32) if word >> bit & 1]
        seen[f"bitmask_row({name})"] = f"words: {len(kept[state])} of {kept[state].dtype}; bits: {bits}"
    num_reads, again = counted.num_reads, [len(found.next_states(state)) for state in kept]
    seen["next_states asked again"] = "worked out again" if counted.num_reads > num_reads else again
    is_kept = all(found.bitmask_row(state) is row for state, row in kept.items())
    of_other = phase9.RegexTokenMasks(Dfa([{}], frozenset()), build_trie(WORDS), size, frozenset(ends)).next_states(0)
    shared: Seen = {"shared with another DFA": bool(of_other) and of_other is found.next_states(0)}
    return shared | seen | {"bitmask_row asked again": "the same array" if is_kept else "another array"}


def many_states(phase9: ModuleType, num_states: int) -> Seen:
    """Get the tokens and the bits of all states of a ring, twice."""
    rows = CountedRows({ord("a"): (state + 1) % num_states} for state in range(num_states))
    found = phase9.RegexTokenMasks(Dfa(rows, frozenset({0})), build_trie(WORDS), len(WORDS), frozenset({7}))
    states = range(num_states)
    first = [(dict(found.next_states(state)), found.bitmask_row(state)) for state in states]
    num_reads = rows.num_reads
    again = [(dict(found.next_states(state)), found.bitmask_row(state)) for state in states]
    num_alike = sum(one[0].get(0) == (state + 1) % num_states for state, one in enumerate(first))
    return {
        "states in which token 0 leads to the next one": num_alike,
        "states with the same tokens when asked again": sum(
            one[0] == two[0] for one, two in zip(first, again, strict=True)
        ),
        "states with the same array when asked again": sum(
            one[1] is two[1] for one, two in zip(first, again, strict=True)
        ),
        "rows of the DFA that are read again": rows.num_reads - num_reads,
    }


def large_vocabulary(phase9: ModuleType, vocab_size: int, end: int) -> Seen:
    """Get the tokens of a single state that accepts every byte of the vocabulary except the last one."""
    letters = range(1, 101)
    words = [bytes(pair) for pair in product(letters, repeat=2)] + [bytes([letter]) for letter in letters] + [b"a" * 99]
    trie = build_trie([*words, *[b""] * (vocab_size - len(words))])
    dfa = Dfa([dict.fromkeys(letters[:-1], 0)], frozenset({0}))
    found = phase9.RegexTokenMasks(dfa, trie, vocab_size, frozenset({end}))
    bits = np.unpackbits(found.bitmask_row(0).view(np.uint8), bitorder="little").nonzero()[0].tolist()
    tokens = sorted(map(int, found.next_states(0)))
    return {"tokens allowed": [len(tokens), tokens[-2:]], "bits set": [len(bits), bits[-2:]]}


def large_logits(phase9: ModuleType, vocab_size: int, seed: int) -> Seen:
    """Apply random bits to one of two large rows of logits; report how many tokens are forbidden."""
    import torch

    words = np.random.default_rng(seed).integers(-(2**31), 2**31, (1, -(-vocab_size // 32)), dtype=np.int32)
    given = torch.zeros(2, vocab_size)
    phase9.apply_bitmask(given, torch.from_numpy(words), [1])
    forbidden = (given[1] == float("-inf")).nonzero().flatten()
    return {
        "tokens forbidden in row 1": len(forbidden),
        "their numbers added up": int(forbidden.sum()),
        "forbidden in row 0": int((given[0] != 0).sum()),
    }


def lines_run(phase9: ModuleType, num_tokens: Sequence[int]) -> Seen:
    """Apply bits to short and long rows of logits; report whether long rows run more of the file's lines."""
    import torch

    from mini_vllm_labs.grading.plays.work import ROOM, work_of

    few, many = (
        work_of(
            partial(phase9.apply_bitmask, torch.zeros(1, size), torch.zeros(1, -(-size // 32), dtype=torch.int32), [0]),
            str(phase9.__file__),
        )
        for size in num_tokens
    )
    return {"does more with many tokens": many > 2 * few + ROOM}


def logits(phase9: ModuleType, num_rows: int, vocab_size: int, rows: Sequence[int], seed: int) -> Seen:
    """Apply random bits to `rows` of logits, as on a GPU; report which tokens are forbidden in each row.

    The seed also chooses the dtype, and whether the rows come as a list or as a tuple.
    """
    import torch

    from mini_vllm_labs.grading.plays.device_tensors import OnDevice, on_device

    size = (len(rows), -(-vocab_size // 32))
    words = np.random.default_rng(seed).integers(-(2**31), 2**31, size, dtype=np.int32)
    dtype = torch.bfloat16 if seed % 3 == 1 else torch.float32
    numbers = torch.arange(num_rows * vocab_size, dtype=dtype).view(num_rows, vocab_size) - 9
    given = numbers.clone()
    with OnDevice():
        arguments = on_device(given), on_device(torch.from_numpy(words.copy()))
        phase9.apply_bitmask(*arguments, tuple(rows) if seed % 2 else list(rows))
    is_forbidden = given == float("-inf")
    seen: Seen = {"the tensor that was given": "as before" if given.equal(numbers) else "changed in place"}
    if not arguments[1].cpu().equal(torch.from_numpy(words)):
        seen["the bitmask"] = "changed"
    for row in range(num_rows):
        seen[f"row {row}{'' if row in rows else ', which has no bits'}: forbidden"] = (
            is_forbidden[row].nonzero().flatten().tolist()
        )
    changed = "not a number" if given.isnan().any() else "changed"
    return seen | {"other logits": "as before" if given[~is_forbidden].equal(numbers[~is_forbidden]) else changed}


class TableMasks:
    """Masks for the tests: `tables[state]` maps a token to the state after it."""

    def __init__(self, tables: Sequence[Mapping[Any, int]]) -> None:
        self.tables = [{int(token): after for token, after in table.items()} for table in tables]

    def next_states(self, state: int) -> dict[int, int]:
        return {} if state == TERMINATED else self.tables[state]

    def bitmask_row(self, state: int) -> Any:
        return np.array([state + 100, -state], dtype=np.int32)


def follows(phase9: ModuleType, tables: Sequence[Mapping[Any, int]], calls: Sequence[tuple[int, str, Any]]) -> Seen:
    """Make calls to two grammars that share masks; report each answer and the number of accepted tokens."""
    table = TableMasks(tables)
    grammars, seen = [phase9.RegexGrammar(table), phase9.RegexGrammar(table)], dict[str, object]()
    for number, (which, name, argument) in enumerate(calls, start=1):
        grammar = grammars[which]
        match name:
            case "accept":
                answer: object = bool(grammar.accept_tokens("r", argument))
            case "accept, so often":
                answer = bool(grammar.accept_tokens("r", argument[:1] * argument[1]))
            case "validate":
                answer = [int(token) for token in grammar.validate_tokens(argument)]
            case "validate, so often":
                answer = f"{len(grammar.validate_tokens(argument[:1] * argument[1]))} of them"
            case "rollback":
                grammar.rollback(min(argument, grammar.num_processed_tokens))
                answer = "done"
            case _:
                answer = _filled(grammar, argument)
        count = int(grammar.num_processed_tokens)
        end = " and terminated" if count >= 0 and grammar.is_terminated() else ""
        seen[f"{number}. {'AB'[which]}: {name} {argument}"] = f"{answer}; {count} accepted{end}"
        if count < 0:  # there is no valid state from which the next call could continue
            break
    return seen


def _filled(grammar: Any, row: int) -> str:
    bitmask = np.full((3, 2), 7, dtype=np.int32)
    grammar.fill_bitmask(bitmask, row)
    masks = {str([state + 100, -state]): f"mask of state {state}" for state in range(9)}
    known = masks | {"[7, 7]": "as before", "[-1, -1]": "all ones"}
    return ", ".join(f"row {row} {known.get(str(words), words)}" for row, words in enumerate(bitmask.tolist()))


def random_regex(rng: Random, depth: int = 3) -> str:
    """Draw a regex over a, b and c."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(("a", "b", "c", "[ab]", "[^a]", "é"))
    one, other = random_regex(rng, depth - 1), random_regex(rng, depth - 1)
    return rng.choice(
        (f"{one}{other}", f"{one}{other}", f"({one}|{other})", f"({one})*", f"({one})?", f"({one}){{1,2}}")
    )


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task."""
    texts = ["".join(rng.choices("aabbcé", k=rng.randrange(7))) for _ in range(12)]
    states = range(rng.choice((1, 3, 5)))
    match task:
        case 1:
            return random_regex(rng), max(texts, key=len)
        case 2:
            return random_regex(rng), rng.choice(("all", "abc", "ab")), texts
        case 3:
            rows = [{char: rng.choice(states) for char in rng.sample("abcx", rng.randrange(4))} for _ in states]
            accepting, ends = rng.sample(states, rng.randrange(len(states))), rng.sample((7, 12), rng.choice((1, 2)))
            return rows, accepting, ends, rng.choice((14, 45, 64))
        case 4:
            masked = rng.sample(range(4), rng.randint(1, 4))
            return 4, rng.choice((5, 32, 70)), masked, rng.randrange(1000)
    tables = [{token: rng.choice((*states, TERMINATED)) for token in rng.sample(range(5), 3)} for _ in states]
    calls = list[tuple[int, str, Any]]()
    for _ in range(12):
        name = rng.choice(("accept", "accept", "validate", "rollback", "fill"))
        argument = rng.randrange(3) if name in ("fill", "rollback") else rng.choices(range(5), k=rng.randrange(4))
        calls.append((rng.randrange(2), name, argument))
    return tables, calls
