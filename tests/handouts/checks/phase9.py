"""Functions for the `<!-- check: ... -->` comments in the phase 9 handout."""

from functools import cache

from transformers import AutoTokenizer

from mini_vllm.electives.automaton import Dfa, build_nfa, build_trie
from mini_vllm.electives.regex import parse_regex
from mini_vllm.runner.loading import EMBEDDED_MODEL
from mini_vllm.runner.model_tokenizer import ModelTokenizer
from mini_vllm_labs.grading.plays.phase9_plays import steps
from solutions import phase9_structured_output as reference


def positions(regex: str, text: str) -> list[object]:
    """Return the regex positions after each byte of a text."""
    return [now for label, now in steps(reference, regex, text).items() if "positions" in label]


def num_states(regex: str, alphabet: str = "") -> int:
    return len(_dfa(regex, alphabet).transitions)


def _dfa(regex: str, alphabet: str = "") -> Dfa:
    return reference.build_dfa(build_nfa(parse_regex(regex)), frozenset(alphabet.encode() or range(256)))


@cache
def tokens() -> list[bytes]:
    """Return the embedded model's vocabulary."""
    return ModelTokenizer(AutoTokenizer.from_pretrained(EMBEDDED_MODEL), frozenset([0])).token_bytes()


def masks(regex: str) -> reference.RegexTokenMasks:
    return reference.RegexTokenMasks(_dfa(regex), build_trie(tokens()), len(tokens()), frozenset([0]))
