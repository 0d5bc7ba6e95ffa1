"""Two plans of a step as bars: how many tokens each request computes, as expected and as found."""

from collections.abc import Mapping
from html import escape

from course.palette import color, ink_on

MIN_PERCENT = 3.0


def step_bars(expected: Mapping[str, int], yours: Mapping[str, int], budget: int) -> str:
    """Return the expected plan above the learner's, in one scale; shares that differ are framed."""
    names = list(dict.fromkeys([*expected, *yours]))
    totals = [sum(max(0, amount) for amount in plan.values()) for plan in (expected, yours)]
    scale = max([min(budget, 2 * max(totals)), *totals, 1])
    return "".join(bar(side, plan, other, names, scale) for side, plan, other in (
        ("expected", expected, expected), ("yours", yours, expected),
    ))  # fmt: skip


def bar(side: str, plan: Mapping[str, int], expected: Mapping[str, int], names: list[str], scale: int) -> str:
    """Return one plan as a row of shares in their order."""
    shares = []
    for name, amount in plan.items():
        number = names.index(name)
        wrong = "" if expected.get(name) == amount else " mvt-wrong"
        width = max(MIN_PERCENT, 100 * max(0, amount) / scale)
        style = f"width:{width:.1f}%;background:{color(number)};color:{ink_on(number)}"
        shares.append(f'<span class="mvt-share{wrong}" style="{style}">{escape(f"{name} {amount}")}</span>')
    total = sum(plan.values())
    words = escape(f"{side}: " + (", ".join(f"{name} {amount}" for name, amount in plan.items()) or "nothing"))
    strip = f'<span class="mvt-step" role="img" aria-label="{words}">{"".join(shares)}</span>'
    return f'<div class="mvt-bar"><span class="mvt-side">{side}</span>{strip}<span>{total} tokens</span></div>'
