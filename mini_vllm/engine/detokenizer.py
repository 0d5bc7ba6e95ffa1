"""Turns tokens into text one by one. The detokenizer never emits partial characters, and finds stop strings that span
several tokens.

vLLM: `v1/engine/detokenizer.py`.
"""

from collections.abc import Sequence
from itertools import islice

from mini_vllm.core.tokenizer import Tokenizer

NUM_CONTEXT_TOKENS = 5
MAX_WINDOW = 32
MAX_CHARACTER = 4  # maximum number of bytes in a UTF-8 character, and therefore of tokens per character
MAX_CONTEXT_TOKENS = NUM_CONTEXT_TOKENS + MAX_CHARACTER - 1
INCOMPLETE = "\ufffd"


class IncrementalDetokenizer:
    """One request's text as it grows.

    One character may need several tokens, and a token's text may depend on the tokens before it. New tokens are
    therefore decoded in a window that begins with the last tokens whose text was accepted. Text is accepted up to its
    last whole character. Bytes that never form a character are accepted once later tokens can no longer change them.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int],
        stop: Sequence[str] = (),
        include_stop_str_in_output: bool = False,
        min_tokens: int = 0,
    ) -> None:
        self.text = ""
        self._decode = tokenizer.decode
        self._stop = stop
        self._include_stop = include_stop_str_in_output
        self._begin(context_of(tokenizer, prompt_token_ids))
        # A stop string that is completed before the text has this many tokens does not end the text.
        self._num_tokens_before_stop = min_tokens
        self._num_held_back = 0 if include_stop_str_in_output else max((len(s) for s in stop), default=1) - 1

    def add(self, token_ids: Sequence[int]) -> str | None:
        """Append tokens; return the stop string that they complete, if any, and truncate the text there."""
        for token_id in token_ids:
            self._window.append(token_id)
            self._num_tokens_before_stop -= 1
            if (stop := self._accept(final=False)) is not None:
                return stop
        return None

    def finish(self) -> str | None:
        """Accept an incomplete last character, because the text is final. Like `add`, returns a stop string."""
        self._num_held_back = 0
        return self._accept(final=True)

    def stable_text(self) -> str:
        """Return the text so far, without any ending that could become part of a stop string."""
        return self.text[: max(0, len(self.text) - self._num_held_back)]

    def _begin(self, token_ids: list[int]) -> None:
        """Begin a window with tokens whose text has been accepted."""
        self._window, self._num_read = token_ids, len(token_ids)
        self._accepted = self._decode(token_ids)  # part of the window's text
        # the window's most recent texts, back to the last one that ends with a whole character
        self._before: list[str] = []

    def _accept(self, final: bool) -> str | None:
        whole, accepted = self._decode(self._window), self._accepted
        num_known = len(accepted)
        is_longer = len(whole) > num_known and whole.startswith(accepted)
        if not is_longer or whole[-1] == INCOMPLETE or accepted[-1:] == INCOMPLETE:
            return self._accept_incomplete(whole, final)
        self._begin(self._window[self._num_read :])
        return self._append(whole[num_known:])

    def _accept_incomplete(self, whole: str, final: bool) -> str | None:
        """Accept settled text if the window ends inside a character or its accepted text has changed."""
        if not whole.startswith(self._accepted) and not self._accepted.endswith(INCOMPLETE):
            # With byte fallback, an incomplete character corrupts every preceding character that is spelled in bytes.
            self._window, self._num_read, self._accepted, self._before = self._window[self._num_read :], 0, "", []
            whole = self._decode(self._window)
        is_final = final or not whole.endswith(INCOMPLETE) or len(self._window) > 2 * MAX_WINDOW
        settled = whole if is_final else self._settled(whole)
        new_text = settled[self._num_known(settled) :]
        if new_text and len(self._window) > 2 * MAX_WINDOW:
            self._begin(self._window[-2 * MAX_CHARACTER :])
        elif new_text:
            self._accepted, self._num_read = settled, len(self._window) if is_final else self._num_read
        self._shorten(whole)
        return self._append(new_text) if new_text else None

    def _settled(self, whole: str) -> str:
        """Return the text left unchanged by the last `MAX_CHARACTER` tokens, the most that one character can need."""
        if whole not in self._before[-1:]:
            self._before = [*self._before[1 - MAX_CHARACTER :], whole]
        return _common([*self._before, whole[:-1]]) if len(self._before) == MAX_CHARACTER else ""

    def _num_known(self, text: str) -> int:
        """Return how many characters of `text` are already accepted; a prompt may have ended inside a character."""
        if text.startswith(self._accepted):
            return len(self._accepted)
        ends = range(self._num_read - 1, max(0, self._num_read - MAX_CHARACTER), -1)
        known = (self._accepted, *(self._decode(self._window[:end]) for end in ends))
        return max(len(_common([text, one])) for one in known)

    def _shorten(self, whole: str) -> None:
        """Shorten a window in which no character is completed, because every new token requires decoding the whole
        window again."""
        num_tokens, num_new = len(self._window), len(whole) - len(self._accepted)
        if num_new == 0 and num_tokens - self._num_read > MAX_CHARACTER and not whole.endswith(INCOMPLETE):
            context, new = self._window[: self._num_read], self._window[self._num_read :]
            if self._decode([*context, *new, *new, *context]) == self._decode(context + context):  # control tokens
                self._window = context
        elif num_tokens > MAX_WINDOW:
            for start in range(num_tokens - 2 * MAX_CHARACTER, num_tokens - 3 * MAX_CHARACTER, -1):
                tail = self._decode(self._window[start:])
                # If each token by itself decodes to an incomplete character, whole characters look the same as parts of
                # one.
                is_clear = tail.count(INCOMPLETE) < num_tokens - start or num_tokens > MAX_WINDOW + MAX_CHARACTER
                if is_clear and whole.endswith(tail) and len(tail) > num_new:
                    num_cut = len(whole) - len(tail)
                    self._window, self._num_read = self._window[start:], max(0, self._num_read - start)
                    self._accepted = self._accepted[num_cut:]
                    self._before = [text[num_cut:] for text in self._before]
                    return

    def _append(self, new_text: str) -> str | None:
        num_old = len(self.text)
        self.text += new_text
        if not self._stop or self._num_tokens_before_stop > 0:
            return None
        starts = ((self.text.find(stop, max(0, num_old - len(stop) + 1)), stop) for stop in self._stop)
        # The stop string that would be completed first if text arrived one character at a time; the longest wins a tie.
        found = min(((start + len(stop), start, stop) for start, stop in starts if start >= 0), default=None)
        if found is None:
            return None
        end, start, stop = found
        self.text = self.text[:end] if self._include_stop else self.text[:start]
        self._num_held_back = 0
        self._begin([])
        return stop


def context_of(tokenizer: Tokenizer, prompt_token_ids: Sequence[int]) -> list[int]:
    """Return the last tokens of a prompt, starting at a whole character if possible.

    With byte fallback a partial character would corrupt all bytes after it.
    """
    for length in (NUM_CONTEXT_TOKENS, MAX_CONTEXT_TOKENS):  # some decoders omit an incomplete character
        tail = list(prompt_token_ids[-length:])
        text = tokenizer.decode(tail)
        if text and INCOMPLETE not in text:
            return tail
    # A space is visible only if a token precedes it.
    shown = (token_id for token_id in reversed(prompt_token_ids) if tokenizer.decode([token_id, token_id]))
    last = list(islice(shown, MAX_CONTEXT_TOKENS))[::-1]
    lengths = (*range(NUM_CONTEXT_TOKENS, MAX_CONTEXT_TOKENS + 1), *range(NUM_CONTEXT_TOKENS - 1, 0, -1))
    for context in (last[-length:] for length in lengths):
        for num_cut in range(min(MAX_CHARACTER, len(context))):  # the prompt may also end in the middle of a character
            part = context[: len(context) - num_cut]
            if tokenizer.decode(part).count(INCOMPLETE) < len(part):
                return context
    return last[-NUM_CONTEXT_TOKENS:] or tail


def _common(texts: Sequence[str]) -> str:
    """Return the longest common prefix."""
    first, last = min(texts), max(texts)
    return next((first[:place] for place, char in enumerate(first) if char != last[place]), first)
