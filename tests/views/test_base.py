"""The base of all views: well-formed SVG, films that store everything once, and fallbacks that show a picture."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm_labs.fresh.jobs import ChatRun
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.knobs import Menu, Slider, Switch
from mini_vllm_labs.pictures.panels import Panel
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.pictures.typeset import shorten, text_width, wrap
from mini_vllm_labs.pictures.widgets import Player
from mini_vllm_labs.runs.palette import OKABE_ITO, color, ink_on, label, lap
from solutions import phase4_prefix_cache, phase6_gpu_runner
from tests.views.runs import ahead, small
from tests.views.svg_reader import is_sound, tree

ROOT = Path(__file__).parents[2]
NASTY = "a<b>&\"'\x00 ]]> </script><script>alert(1)</script>"


def counter(step: int, title: str = "counter") -> Picture:
    """A minimal view: a number that grows, on a background that never changes."""
    ground = svg.rect(0, 0, 100, 40, class_="mv-panel")
    digit = svg.group(
        svg.tooltip(f"it is {step}"),
        svg.text(10, 25, str(step), class_="mv-strong"),
        data_request=str(step % 2),
        data_about=f"request:{step % 2}",
    )
    return Picture(
        title=f"{title}, step {step}",
        height=60,
        layers=(Layer("ground", ground), Layer("digit", digit, x=5, y=5)),
        sentence=f"The counter shows {step}.",
        text_alternative=f"counter: {step}",
    )


def counting(num_steps: int) -> Film:
    return Film([counter(step) for step in range(num_steps)], follow=[("request:0", "even"), ("request:1", "odd")])


def test_elements_are_escaped_and_well_formed() -> None:
    made = svg.group(svg.tooltip(NASTY), svg.text(1, 2, NASTY), aria_label=NASTY, class_="x", fill=None)
    root = ElementTree.fromstring(f"<svg>{made}</svg>")
    group = root[0]
    assert set(group.attrib) == {"aria-label", "class"}
    assert group.attrib["aria-label"].startswith("a<b>&\"'")
    assert [child.text for child in group] == [NASTY.replace("\x00", "\N{REPLACEMENT CHARACTER}")] * 2


@pytest.mark.parametrize("size", [(3, 9), (40, 14), (0.5, 14), (700, 22)])
def test_hatching_stays_inside_its_rectangle(size: tuple[float, float]) -> None:
    width, height = size
    drawn = svg.hatch(10, 20, width, height)
    points = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", drawn)]
    assert all(9.99 <= x <= 10.01 + width and 19.99 <= y <= 20.01 + height for x, y in points)
    assert len(points) >= 2 or width < 1


def luminance(hex_color: str) -> float:
    channels = [int(hex_color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_label_reads_on_its_colour() -> None:
    for index in range(20):
        low, high = sorted([luminance(color(index)), luminance(ink_on(index))])
        assert (high + 0.05) / (low + 0.05) >= 4.5, "the contrast that WCAG AA asks for"
    assert len({(color(i), lap(i)) for i in range(30)}) == 30
    assert len({label(i) for i in range(100)}) == 100
    assert len(OKABE_ITO) == 8


def test_text_is_shortened_and_wrapped_to_fit() -> None:
    assert shorten("short", 100, 12) == "short"
    long = shorten("What is the capital of Norway?", 80, 12)
    assert long.endswith("…")
    assert text_width(long, 12) <= 80
    assert shorten("W", 1, 12) == ""
    lines = wrap("word " * 100, 300, 12, 2)
    assert len(lines) == 2
    assert lines[-1].endswith("…")


def test_a_picture_needs_no_other_file_and_describes_itself() -> None:
    picture = counter(3)
    root = tree(picture)
    assert is_sound(picture)
    assert (root.get("role"), root[0].text, root[1].text) == ("img", picture.title, picture.sentence)
    assert "http" not in picture.svg().replace("http://www.w3.org/2000/svg", ""), "nothing is fetched"


def test_a_picture_refuses_what_would_not_fit_or_not_swap() -> None:
    with pytest.raises(ValueError, match="at most 1100"):
        Picture("x", 10, (), "", "", width=1101)
    with pytest.raises(ValueError, match="twice: a"):
        Picture("x", 10, (Layer("a", Markup("")), Layer("a", Markup(""))), "", "")


def test_bundles_show_a_picture_with_and_without_trust_and_no_address() -> None:
    for shown in (counter(3), Player(counting(5), step=3)):
        bundle = shown._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        assert data["text/plain"] == "counter: 3"
        assert data["image/svg+xml"] == counter(3).svg()
        (held,) = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"', data["text/html"])
        assert base64.b64decode(held).decode() == counter(3).svg()
        assert "<pre>counter: 3</pre>" in data["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in Player(counting(3))._repr_mimebundle_()[0]
    assert "0x" not in repr(counter(3))


def test_a_film_holds_what_does_not_change_once() -> None:
    encoded = json.loads(json.dumps(counting(60).encode()))
    assert sum("mv-panel" in fragment for fragment in encoded["fragments"]) == 1
    assert [encoded["fragments"][frame["text_alternative"]] for frame in encoded["frames"]][7] == "counter: 7"


def test_a_film_refuses_pictures_of_another_shape_and_steps_that_are_not_there() -> None:
    other = Picture("x", 61, counter(0).layers, "", "")
    with pytest.raises(ValueError, match="picture 1 differs"):
        Film([counter(0), other])
    with pytest.raises(ValueError, match="at least one"):
        Film([])
    with pytest.raises(ValueError, match="0 to 4"):
        counting(5)[5]
    with pytest.raises(ValueError, match="0 to 4"):
        player(counting(5), -1)
    widget = player(counting(5))
    with pytest.raises(ValueError, match="0 to 4"):
        widget.step = 9
    with pytest.raises(ValueError, match="speed is 0"):
        player(counting(5), speed=0)


KNOBS = (
    Slider("budget", "token budget", 32, 8, 64, 8, "tokens"),
    Menu("policy", "policy", "fcfs", ("fcfs", "priority")),
    Switch("caching", "prefix caching", True),
)


def budget_picture(budget: float, policy: str, caching: bool) -> Picture:
    if budget == 64:
        raise ValueError("a budget of 64 does not fit")
    drawn = svg.text(10, 20, f"{budget} {policy} {caching}")
    return Picture(
        "budget", 40, (Layer("all", drawn),), f"The budget is {budget}.", f"budget {budget} {policy} {caching}"
    )


def test_a_panel_answers_requests_and_explains_impossible_settings() -> None:
    panel = Panel(KNOBS, budget_picture)
    assert panel.answer["text_alternative"] == "budget 32 fcfs True"
    panel.question = {"ticket": 1, "values": {"budget": 40, "policy": "priority", "caching": False}}
    assert (panel.answer["ticket"], panel.answer["text_alternative"]) == (1, "budget 40 priority False")
    panel.set(budget=64)
    assert panel.answer == {"ticket": 2, "error": "a budget of 64 does not fit"}
    assert panel.picture().text_alternative == "budget 40 priority False", "the last picture stays"
    panel.question = {"ticket": 3, "values": panel.values | {"budget": 7}}
    assert panel.answer["error"] == "budget is 7, but it must be a number from 8 to 64"
    for wrong in ({"policy": "lifo"}, {"caching": 1}, {"budgets": 8}, {"budget": "8"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            panel.set(**wrong)
    assert "<img" in panel._repr_mimebundle_()[0]["text/html"]


def test_views_load_neither_torch_nor_widgets() -> None:
    program = (
        "import sys, mini_vllm_labs.pictures.show\n"
        "import mini_vllm_labs.runs.traces.recording, mini_vllm_labs.runs.traces.sentences\n"
        "import mini_vllm_labs.pictures.paged_batch; mini_vllm_labs.pictures.paged_batch.paged_batch()\n"
        "heavy = {'torch', 'ipywidgets', 'anywidget', 'IPython', 'rich', 'typer', 'numpy'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_the_views_in_the_readme_work_as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "mini_vllm_labs/pictures/README.md").read_text(encoding="utf-8")
    _, blocks, ahead_of_time, view, knobs, panels = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    config = EngineConfig(num_gpu_blocks=21, max_model_len=40, block_size=4)
    llm = LLM(config=config, lineup=parse_lineup("solution:1-5"), record=True)
    llm.generate(["hello mini"], SamplingParams(max_tokens=4))
    names: dict[str, Any] = {"llm": llm, "draw": lambda budget, caching: counter(int(budget))}
    exec(blocks, names | {"phase_4": phase4_prefix_cache, "phase_6": phase6_gpu_runner})
    runs = {"chats": ChatRun(ahead(), {}, {}), "in_turn": ChatRun(small(), {}, {}), "ahead": ChatRun(ahead(), {}, {})}
    exec(ahead_of_time, names | runs)
    exec(view, names)
    exec(knobs, names)
    monkeypatch.setenv("LAB_IMPL", "solution")
    exec(panels, names)
    film = names["free_blocks"](names["Recording"].of(names["llm"]))
    assert film[0].text_alternative == "step 0: 17 of 20 blocks free"
