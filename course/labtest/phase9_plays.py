"""What graded tests and judge see of a file for phase 9: each function plays one case and describes it."""

import sys
from collections.abc import Mapping, Sequence
from random import Random
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from mini_vllm.core.automaton import MAX_DFA_STATES, START, TERMINATED, Dfa, build_nfa, build_trie
from mini_vllm.core.regex import parse_regex

Seen = dict[str, object]  # what plain JSON can hold
WORDS = tuple(text.encode() for text in ("a", "b", "c", "ab", "bc", "abc", "ba", "", "aa", "x", "cab", "é", "", "a"))
VOCABULARY = "the vocabulary: " + ", ".join(f"{token} {text.decode()}" for token, text in enumerate(WORDS) if text)


def steps(phase9: ModuleType, regex: str, text: str) -> Seen:
    """Read a text byte by byte; see the positions after each."""
    nfa, seen, now = build_nfa(parse_regex(regex)), dict[str, object](), frozenset({START})
    for number, byte in enumerate(text.encode(), start=1):
        found = phase9.next_positions(nfa, now, byte)
        now = frozenset(found)
        seen[f"{number}: positions after {bytes([byte])!r}"] = sorted(map(int, now))
        seen["type of the answer"] = type(found).__name__
    return seen | {"the automaton": "as before" if nfa == build_nfa(parse_regex(regex)) else "changed"}


def walks(phase9: ModuleType, regex: str, alphabet: str, texts: Sequence[str]) -> Seen:
    """Walk through the DFA with texts; see how far each one comes, and whether it may end there."""
    chars = frozenset(range(256) if alphabet == "all" else alphabet.encode())
    dfa = phase9.build_dfa(build_nfa(parse_regex(regex)), chars)
    return {repr(text): _walked(dfa, text.encode()) for text in texts}


def _walked(dfa: Dfa, text: bytes) -> str:
    state, num_states = START, len(dfa.transitions)
    for number, byte in enumerate(text, start=1):
        if state < num_states and byte not in dfa.transitions[state]:
            return f"byte {number} cannot be read"
        state = dfa.transitions[state][byte] if state < num_states else state
    if state >= num_states:
        return f"state {state} is not there: there are {num_states}"
    return "may end" if state in dfa.accepting else "must go on"


def sizes(phase9: ModuleType, regex: str, alphabet: str) -> Seen:
    """Build a large DFA; see how many states it has, or how it is refused."""
    try:
        dfa = phase9.build_dfa(build_nfa(parse_regex(regex)), frozenset(alphabet.encode()))
        return {"build_dfa": f"states: {len(dfa.transitions):,}"}
    except ValueError as error:
        names_limit = str(MAX_DFA_STATES) in str(error).replace(",", "")
        return {"build_dfa": f"a ValueError that names {MAX_DFA_STATES:,}" if names_limit else f"ValueError: {error}"}


class CountedRows(list[dict[int, int]]):
    """The rows of a DFA, which count how often one is read."""

    num_reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.num_reads += 1
        return super().__getitem__(place)


def masks(
    phase9: ModuleType, rows: Sequence[dict[str, int]], accepting: Sequence[int], ends: Sequence[int], size: int
) -> Seen:
    """Ask for the tokens of each state, twice, of the vocabulary `WORDS` with `size` rows of logits."""
    counted = CountedRows({ord(char): after for char, after in row.items()} for row in rows)
    dfa, seen = Dfa(counted, frozenset(accepting)), dict[str, object]()
    found = phase9.RegexTokenMasks(dfa, build_trie(WORDS), size, frozenset(ends))
    seen["worked out before a question"] = counted.num_reads > 0
    kept = dict[int, Any]()
    for state in (*range(len(rows)), TERMINATED):
        name, answer = "TERMINATED" if state == TERMINATED else state, found.next_states(state)
        texts = [_token(token, to) for token, to in sorted(answer.items()) if token not in ends]
        seen[f"next_states({name})"] = ", ".join(texts) or "nothing"
        texts = [_token(end, answer[end]) for end in ends if end in answer]
        seen[f"next_states({name}): ends of text"] = ", ".join(texts) or "none"
        kept[state] = found.bitmask_row(state)
        bits = [32 * place + bit for place, word in enumerate(kept[state]) for bit in range(32) if word >> bit & 1]
        seen[f"bitmask_row({name})"] = f"words: {len(kept[state])} of {kept[state].dtype}; bits: {bits}"
    num_reads, last = counted.num_reads, {state: len(found.next_states(state)) for state in kept}
    seen["next_states asked again"] = "worked out again" if counted.num_reads > num_reads else list(last.values())
    is_kept = all(found.bitmask_row(state) is row for state, row in kept.items())
    return seen | {"bitmask_row asked again": "the same array" if is_kept else "another array"}


def _token(token: int, to: int) -> str:
    text = f" {WORDS[token].decode()}" if token < len(WORDS) and WORDS[token] else ""
    return f"{token}{text} to {'TERMINATED' if to == TERMINATED else int(to)}"


def logits(phase9: ModuleType, num_rows: int, vocab_size: int, rows: Sequence[int], seed: int) -> Seen:
    """Apply random bits to `rows` of logits; see which tokens are forbidden in each row."""
    import torch

    size = (len(rows), -(-vocab_size // 32))
    words = np.random.default_rng(seed).integers(-(2**31), 2**31, size, dtype=np.int32)
    numbers = torch.arange(num_rows * vocab_size, dtype=torch.float32).view(num_rows, vocab_size) - 9
    given = numbers.clone()
    phase9.apply_bitmask(given, torch.from_numpy(words), list(rows))
    is_forbidden = given == float("-inf")
    seen: Seen = {"the tensor that was given": "as before" if given.equal(numbers) else "changed in place"}
    for row in range(num_rows):
        name = f"row {row}" if row in rows else f"row {row}, which has no bits"
        seen[f"{name}: forbidden"] = is_forbidden[row].nonzero().flatten().tolist()
    return seen | {"other logits": "as before" if given[~is_forbidden].equal(numbers[~is_forbidden]) else "changed"}


def loops(phase9: ModuleType, num_tokens: int) -> Seen:
    """Mask one row of a large vocabulary; see whether Python takes a step for each token."""
    import torch

    num_steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal num_steps
        frame.f_trace_opcodes = True
        num_steps += event == "opcode"
        return trace

    given, before = (
        (torch.zeros(1, num_tokens), torch.zeros(1, -(-num_tokens // 32), dtype=torch.int32)),
        sys.gettrace(),
    )
    sys.settrace(trace)
    try:
        phase9.apply_bitmask(*given, [0])
    finally:
        sys.settrace(before)
    return {"steps of Python for each token": "fewer than 3" if num_steps < 3 * num_tokens else "3 or more"}


class TableMasks:
    """Masks for the tests: `tables[state]` maps a token to the state after it."""

    def __init__(self, tables: Sequence[Mapping[Any, int]]) -> None:
        self.tables = [{int(token): after for token, after in table.items()} for table in tables]

    def next_states(self, state: int) -> dict[int, int]:
        return {} if state == TERMINATED else self.tables[state]

    def bitmask_row(self, state: int) -> Any:
        return np.array([state + 100, -state], dtype=np.int32)


def follows(phase9: ModuleType, tables: Sequence[Mapping[Any, int]], calls: Sequence[tuple[int, str, Any]]) -> Seen:
    """Make calls to two grammars over the same masks; see each answer, and how many tokens are accepted."""
    table = TableMasks(tables)
    grammars, seen = [phase9.RegexGrammar(table), phase9.RegexGrammar(table)], dict[str, object]()
    for number, (which, name, argument) in enumerate(calls, start=1):
        grammar = grammars[which]
        match name:
            case "accept":
                answer: object = bool(grammar.accept_tokens("r", argument))
            case "validate":
                answer = [int(token) for token in grammar.validate_tokens(argument)]
            case "rollback":
                grammar.rollback(min(argument, grammar.num_processed_tokens))
                answer = "done"
            case _:
                answer = _filled(grammar, argument)
        count = int(grammar.num_processed_tokens)
        end = " and terminated" if count >= 0 and grammar.is_terminated() else ""
        seen[f"{number}. {'AB'[which]}: {name} {argument}"] = f"{answer}; {count} accepted{end}"
        if count < 0:  # nothing is left that the next call could go on from
            break
    return seen


def _filled(grammar: Any, row: int) -> str:
    bitmask = np.full((3, 2), 7, dtype=np.int32)
    grammar.fill_bitmask(bitmask, row)
    known = {(7, 7): "as before", (-1, -1): "all ones"}
    known |= {(state + 100, -state): f"mask of state {state}" for state in range(-1, 9)}
    seen = [(first, second) for first, second in bitmask.tolist()]
    return ", ".join(f"row {row} {known.get(words, list(words))}" for row, words in enumerate(seen))


def random_regex(rng: Random, depth: int = 3) -> str:
    """Return a regex over a, b and c."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(("a", "b", "c", "[ab]", "[^a]", "é"))
    one, other = random_regex(rng, depth - 1), random_regex(rng, depth - 1)
    return rng.choice(
        (f"{one}{other}", f"{one}{other}", f"({one}|{other})", f"({one})*", f"({one})?", f"({one}){{1,2}}")
    )


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Return what the play of a task is given in a random case."""
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
