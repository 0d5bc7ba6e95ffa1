"""Quantities as people write them: three digits that count, and a unit."""

STEADY = 0.02
"""Changes of less than this share are no changes worth a sentence."""


def digits(value: float) -> str:
    """Return a number with three digits that count, and with all of those before the point; millions as M."""
    if value >= 999_999.5:
        return f"{digits(value / 1e6)} M"
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def seconds(value: float) -> str:
    """Return a time in the largest of µs, ms and s of which there is one."""
    if value < 0.9995e-3:
        return f"{digits(value * 1e6)} µs"
    return f"{digits(value)} s" if value >= 0.9995 else f"{digits(value * 1e3)} ms"


def round_seconds(value: float) -> str:
    """Return a time that has one digit that counts, as on an axis."""
    return f"{value:,.0f} s" if value >= 1 else f"{value * 1e3:g} ms"


def memory(num_bytes: float) -> str:
    """Return bytes in the largest of B, KiB, MiB and GiB of which there is one."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= size:
            return f"{digits(num_bytes / size)} {unit}"
    return f"{num_bytes:,.0f} B"


def change(before: float, now: float, text: str, text_before: str) -> str:
    """Return that a figure rose, fell or stayed, as in `falls from 55 ms to 9 ms`."""
    if abs(now - before) <= STEADY * before or text == text_before:
        return f"stays at {text}"
    return f"{'rises' if now > before else 'falls'} from {text_before} to {text}"
