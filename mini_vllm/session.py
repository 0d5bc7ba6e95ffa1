"""`Session` holds a text that grows turn by turn and can be rewound, forked, saved and resumed.

A session holds tokens; the engine holds their K and V. Each turn sends all tokens of the session again, and the prefix
cache finds those already computed. Forks therefore share blocks through reference counts, and evicting blocks never
changes a turn's result.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mini_vllm.core.tokenizer import Message
from mini_vllm.llm import LLM
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams
from mini_vllm.session_file import read_session, write_session

OnStep = Callable[[list[RequestOutput]], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn's change to the tokens: keep the first `num_kept`, then append the prompt and the output.

    `question` is the user's message in a chat, or None in plain text. The chat's prompt omits the first `num_forgotten`
    turns.
    """

    num_kept: int
    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    question: str | None = None
    answer: str = ""
    num_forgotten: int = 0

    def appended_to(self, token_ids: Sequence[int]) -> list[int]:
        return [*token_ids[: self.num_kept], *self.prompt_token_ids, *self.output_token_ids]


class Session:
    """The turns of one chat or plain text on an engine. A failed turn leaves the session unchanged."""

    def __init__(self, llm: LLM, turns: Sequence[Turn] = ()) -> None:
        self.llm = llm
        self.turns: list[Turn] = []
        self.token_ids: list[int] = []
        self.num_forgotten = 0
        self.path: Path | None = None
        self._use(turns)

    def generate(
        self,
        prompt: str | Sequence[int] = "",
        params: SamplingParams | None = None,
        on_step: OnStep | None = None,
    ) -> RequestOutput:
        """Append `prompt` (text or token ids; an empty prompt continues the text) and the model's completion.

        Raises `ValueError` like `LLM.generate`, or if the session is a chat.
        """
        return generate_together([self], [prompt], params, on_step)[0]

    def chat(self, question: str, params: SamplingParams | None = None, on_step: OnStep | None = None) -> RequestOutput:
        """Append a question and its answer. Raises `ValueError` like `LLM.chat`, or if the session is plain text."""
        prompt = self.chat_prompt(question)
        (output,) = self.llm.generate([prompt], params, on_step)
        num_kept = _num_equal(self.token_ids, prompt)
        completion = output.outputs[0]
        self._append(
            Turn(
                num_kept,
                tuple(prompt[num_kept:]),
                tuple(completion.token_ids),
                question,
                completion.text,
                self.num_forgotten,
            )
        )
        return output

    def chat_prompt(self, question: str) -> list[int]:
        """Return the prompt tokens for a question: the conversation without forgotten turns, formatted by the chat
        template."""
        if any(turn.question is None for turn in self.turns):
            raise ValueError("this session is plain text: continue it with generate(), not with chat()")
        messages: list[Message] = []
        for turn in self.turns[self.num_forgotten :]:
            messages.append({"role": "user", "content": turn.question or ""})
            messages.append({"role": "assistant", "content": turn.answer})
        return self.llm.engine.tokenizer.apply_chat_template([*messages, {"role": "user", "content": question}])

    def forget_oldest(self) -> bool:
        """Omit the oldest remaining turn from later prompts; return False if no turn remains.

        The turn stays in saved files.
        """
        if self.num_forgotten == len(self.turns):
            return False
        self.num_forgotten += 1
        return True

    def rewind(self, num_turns: int = 1) -> None:
        """Remove the last turns. Raises `ValueError` if the session has fewer turns."""
        if type(num_turns) is not int or not 1 <= num_turns <= len(self.turns):
            raise ValueError(f"rewind must remove 1 to {len(self.turns)} turns, got {num_turns!r}")
        self._use(self.turns[:-num_turns])

    def fork(self) -> "Session":
        """Return an independent session with the same turns on the same engine."""
        other = Session(self.llm, self.turns)
        other.num_forgotten = self.num_forgotten
        return other

    def save(self, path: str | Path) -> None:
        """Write the session to a file atomically; only its owner may read it.

        An existing file is replaced only if this session was saved to it or resumed from it; otherwise, `ValueError` is
        raised. The file does not contain K and V. With `KVTransferConfig("disk")`, K and V are in the connector's
        folder, and a resumed session loads them from there. Otherwise, a resumed session computes them again.
        """
        path = Path(path).absolute()
        if path != self.path and path.exists():
            raise ValueError(
                f"{path} exists and is not this session's file, so it was not overwritten: choose a different file name"
            )
        write_session(path, self.llm.engine.model_id, [asdict(turn) for turn in self.turns])
        self.path = path

    @classmethod
    def resume(cls, llm: LLM, path: str | Path) -> "Session":
        """Return the session saved in a file.

        Raises `ValueError` if the file is unreadable or belongs to a different model.
        """
        turns = read_session(Path(path), llm.engine.model_id, llm.engine.runner.vocab_size)
        session = cls(llm, [Turn(**turn) for turn in turns])
        session.path = Path(path).absolute()
        return session

    def _tokens_of(self, prompt: str | Sequence[int]) -> list[int]:
        """Return a prompt's tokens; except on the first turn, omit the special tokens that begin every text."""
        if not isinstance(prompt, str):
            return list(prompt)
        encode = self.llm.engine.tokenizer.encode
        token_ids = encode(prompt)
        return token_ids[_num_equal(encode(""), token_ids) if self.turns else 0 :]

    def _use(self, turns: Sequence[Turn]) -> None:
        self.turns, self.token_ids = [], []
        self.num_forgotten = 0
        for turn in turns:
            self._append(turn)

    def _append(self, turn: Turn) -> None:
        self.turns.append(turn)
        self.token_ids = turn.appended_to(self.token_ids)
        self.num_forgotten = turn.num_forgotten


def generate_together(
    sessions: Sequence[Session],
    prompts: Sequence[str | Sequence[int]],
    params: SamplingParams | Sequence[SamplingParams] | None = None,
    on_step: OnStep | None = None,
) -> list[RequestOutput]:
    """Append a prompt to each of several plain texts on one engine, and generate for all in the same steps.

    Raises `ValueError` like `LLM.generate`, and also if a session is a chat or is repeated, or if the sessions are on
    different engines.
    """
    if len({id(session) for session in sessions}) < len(sessions) or len({id(one.llm) for one in sessions}) != 1:
        raise ValueError(
            "generating together needs at least one session; the sessions must all be distinct and use the same engine"
        )
    if any(turn.question is not None for session in sessions for turn in session.turns):
        raise ValueError("this session is a chat: continue it with chat(), not with generate()")
    added = [session._tokens_of(prompt) for session, prompt in zip(sessions, prompts, strict=True)]
    llm = sessions[0].llm
    wholes = [[*session.token_ids, *tokens] for session, tokens in zip(sessions, added, strict=True)]
    outputs = llm.generate(wholes, params, on_step)
    for session, tokens, output in zip(sessions, added, outputs, strict=True):
        completion = output.outputs[0]
        kept = len(session.token_ids)
        session._append(Turn(kept, tuple(tokens), tuple(completion.token_ids), answer=completion.text))
    return outputs


def _num_equal(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(first), len(second)))
