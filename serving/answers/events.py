"""The events of a stream as bytes. What is the same in every event of a choice is written once, before the first."""

import json
from typing import Any

from mini_vllm.outputs import RequestOutput
from serving.answers.asked import Asked

COMPACT = (",", ":")
DONE = b"data: [DONE]\n\n"


def event(body: dict[str, Any]) -> bytes:
    """Return any object as an event."""
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n".encode()


def head_of(asked: Asked) -> dict[str, Any]:
    """Return what every event of a stream begins with."""
    return {
        "id": asked.answer_id,
        "object": asked.form.chunk_object,
        "created": asked.created,
        "model": asked.served.name,
    }


class ChoiceEvents:
    """The events of one choice: an opening, one for each piece of text, an ending with the finish reason."""

    def __init__(self, asked: Asked, index: int) -> None:
        self._form = asked.form
        self._logprobs = asked.reported_logprobs()
        self._echo = asked.echoes[index] if asked.echoes else ""
        self._is_open = False
        head = json.dumps(head_of(asked), separators=COMPACT).removesuffix("}")
        self._start = f'data: {head},"choices":[{{"index":{index},'
        # OpenAI's streams that end with the usage have the field, null, in every other event.
        self._end = '}],"usage":null}\n\n' if asked.include_usage else "}]}\n\n"
        self._before_text = self._start + self._form.before_text
        self._after_text = f'{self._form.after_text},"logprobs":null,"finish_reason":null{self._end}'

    def of(self, output: RequestOutput) -> bytes:
        """Return the events of an output; none if it brings nothing to show."""
        text = "" if self._is_open else self._opening()
        new_text = output.new_text
        if self._logprobs is not None:
            text += self._with_logprobs(output)
        elif new_text:
            text += self._before_text + json.dumps(new_text) + self._after_text
        if output.finished:
            text += self._ending(output)
        return text.encode()

    def _opening(self) -> str:
        self._is_open = True
        said = [] if self._form.opening is None else [self._form.opening]
        if self._echo:
            said.append(f"{self._form.before_text}{json.dumps(self._echo)}{self._form.after_text}")
        return "".join(f'{self._start}{part},"logprobs":null,"finish_reason":null{self._end}' for part in said)

    def _with_logprobs(self, output: RequestOutput) -> str:
        assert self._logprobs is not None
        logprobs = json.dumps(self._form.take_logprobs(self._logprobs, output.outputs[0]), separators=COMPACT)
        text = json.dumps(output.new_text) + self._form.after_text
        return f'{self._before_text}{text},"logprobs":{logprobs},"finish_reason":null{self._end}'

    def _ending(self, output: RequestOutput) -> str:
        completion = output.outputs[0]
        reason, stop = json.dumps(completion.finish_reason), json.dumps(completion.stop_reason)
        reasons = f'"finish_reason":{reason},"stop_reason":{stop}'
        return f'{self._start}{self._form.ending},"logprobs":null,{reasons}{self._end}'
