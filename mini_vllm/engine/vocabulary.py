"""The vocabulary for grammars: the bytes of each token, and tokens that spell given bytes."""

from collections.abc import Iterable
from functools import cached_property

from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.electives.automaton import TrieNode, build_trie

# All bytes that can occur in UTF-8. A vocabulary with a token for each byte can spell any text and complete any
# character.
UTF_8 = frozenset(range(256)) - {0xC0, 0xC1, *range(0xF5, 0x100)}


class Vocabulary:
    """A tokenizer's text tokens, indexed by token id up to `vocab_size`. llguidance uses this object as a tokenizer.

    Control tokens have empty bytes. End-of-text tokens also have empty bytes, because they end a text whatever they
    decode to.
    """

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, eos_token_ids: frozenset[int]) -> None:
        token_bytes = tokenizer.token_bytes()[:vocab_size]
        token_bytes += [b""] * (vocab_size - len(token_bytes))  # a model may have more logits than it has tokens
        self.token_bytes = [b"" if i in eos_token_ids else text for i, text in enumerate(token_bytes)]
        self.tokenizer = tokenizer
        self.eos_token_id = min(eos_token_ids)
        self.special_token_ids = [token_id for token_id, text in enumerate(self.token_bytes) if not text]
        self.is_complete = {text[0] for text in self.token_bytes if len(text) == 1} >= UTF_8
        self._max_bytes = max(map(len, self.token_bytes))

    @cached_property
    def trie(self) -> TrieNode:
        return build_trie(self.token_bytes)

    @cached_property
    def alphabet(self) -> frozenset[int]:
        """The bytes that occur in tokens."""
        return frozenset(b"".join(self.token_bytes))

    @property
    def tokens(self) -> list[bytes]:
        """The tokens in llguidance's format: a control token is the byte 0xFF, which UTF-8 never uses, followed by its
        name."""
        names = {token_id: name for name, token_id in self.tokenizer.control_tokens.items()}
        return [
            text or b"\xff" + names.get(token_id, f"<{token_id}>").encode()
            for token_id, text in enumerate(self.token_bytes)
        ]

    def __call__(self, text: str) -> list[int]:
        """Return tokens whose bytes are exactly this text, or the longest prefix of it that tokens can spell.

        The tokenizer's own encoding is preferred, because the model was trained on it. However, a tokenizer may prepend
        a space, change letters (NFC, lower case) and omit unknown characters.
        """
        known = range(len(self.token_bytes))
        token_ids = [one for one in self.tokenizer.encode(text) if one in known and self.token_bytes[one]]
        return token_ids if self._joined(token_ids) == text.encode() else self.spell(text.encode())

    def is_spelled(self, text: str) -> bool:
        """Return whether tokens can spell the whole text."""
        return self.is_complete or self._joined(self.spell(text.encode())) == text.encode()

    def spell(self, text: bytes) -> list[int]:
        """Return tokens that spell the text or its longest possible prefix; longer tokens are preferred."""
        token_ids, ends, options = list[int](), [0], [self._tokens_at(text, 0)]
        furthest, dead = (0, list[int]()), set[int]()  # from a dead position, no sequence of tokens reaches the end
        while ends[-1] < len(text):
            if options[-1]:
                token_id, end = options[-1].pop()
                if end not in dead:
                    token_ids.append(token_id)
                    ends.append(end)
                    options.append(self._tokens_at(text, end))
                continue
            if ends[-1] > furthest[0]:
                furthest = ends[-1], list(token_ids)
            if not token_ids:
                return furthest[1]
            dead.add(ends.pop())
            token_ids.pop()
            options.pop()
        return token_ids

    def _joined(self, token_ids: Iterable[int]) -> bytes:
        return b"".join(map(self.token_bytes.__getitem__, token_ids))

    def _tokens_at(self, text: bytes, start: int) -> list[tuple[int, int]]:
        """Return each token that `text[start:]` begins with, and the token's end; the longest comes last."""
        node, found = self.trie, list[tuple[int, int]]()
        for end, byte in enumerate(text[start : start + self._max_bytes], start=start + 1):
            if byte not in node.children:
                break
            node = node.children[byte]
            found += [(token_id, end) for token_id in node.token_ids[:1]]
        return found
