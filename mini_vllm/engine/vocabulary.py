"""The vocabulary as grammars see it: the bytes of each token, and tokens that spell given bytes."""

from collections.abc import Iterable
from functools import cached_property

from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.electives.automaton import TrieNode, build_trie

# Every byte of UTF-8. A vocabulary with a token for each can write any text and is never stuck within a character.
UTF_8 = frozenset(range(256)) - {0xC0, 0xC1, *range(0xF5, 0x100)}


class Vocabulary:
    """A tokenizer's tokens of text, by token id up to `vocab_size`. llguidance takes it for a tokenizer.

    Control tokens have no bytes. Neither have end-of-text tokens, because they end a text whatever they decode to.
    """

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, eos_token_ids: frozenset[int]) -> None:
        token_bytes = tokenizer.token_bytes()[:vocab_size]
        token_bytes += [b""] * (vocab_size - len(token_bytes))  # a model may have more logits than tokens
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
        """The tokens as llguidance takes them: control tokens are 0xFF, which is no byte of UTF-8, and their name."""
        names = {token_id: name for name, token_id in self.tokenizer.control_tokens.items()}
        return [
            text or b"\xff" + names.get(token_id, f"<{token_id}>").encode()
            for token_id, text in enumerate(self.token_bytes)
        ]

    def __call__(self, text: str) -> list[int]:
        """Return tokens whose bytes are exactly this text, or its longest beginning that tokens spell.

        The tokenizer's own tokens come first, because the model knows them. But a tokenizer may begin with a blank,
        change letters (NFC, lower case) and leave out what it does not know.
        """
        known = range(len(self.token_bytes))
        token_ids = [one for one in self.tokenizer.encode(text) if one in known and self.token_bytes[one]]
        return token_ids if self._joined(token_ids) == text.encode() else self.spell(text.encode())

    def is_spelled(self, text: str) -> bool:
        """Return whether some tokens spell a text."""
        return self.is_complete or self._joined(self.spell(text.encode())) == text.encode()

    def spell(self, text: bytes) -> list[int]:
        """Return tokens that spell the text or its longest possible beginning: of each two choices the longer token."""
        token_ids, ends, options = list[int](), [0], [self._tokens_at(text, 0)]
        furthest, dead = (0, list[int]()), set[int]()  # nothing that begins at a dead place reaches the end
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
        """Return the tokens with which `text[start:]` may begin, each with its end; the longest comes last."""
        node, found = self.trie, list[tuple[int, int]]()
        for end, byte in enumerate(text[start : start + self._max_bytes], start=start + 1):
            if byte not in node.children:
                break
            node = node.children[byte]
            found += [(token_id, end) for token_id in node.token_ids[:1]]
        return found
