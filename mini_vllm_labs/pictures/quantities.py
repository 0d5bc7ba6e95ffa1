"""Formats quantities with three significant digits and a unit."""


def digits(value: float) -> str:
    """Format a number with three significant digits but all digits before the point; millions get M."""
    if value >= 999_999.5:  # values from here up round to a million; the limits below work the same way
        return f"{digits(value / 1e6)} M"
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def seconds(value: float) -> str:
    """Format a time in the largest unit of µs, ms and s for which the value is at least 1."""
    if value < 0.9995e-3:  # 999.6 µs would be shown as 1,000 µs
        return f"{digits(value * 1e6)} µs"
    return f"{digits(value)} s" if value >= 0.9995 else f"{digits(value * 1e3)} ms"


def round_seconds(value: float) -> str:
    """Format a time with one significant digit, as on an axis."""
    return f"{value:,.0f} s" if value >= 1 else f"{value * 1e3:g} ms"


def memory(num_bytes: float) -> str:
    """Format bytes in the largest unit of B, KiB, MiB and GiB for which the value is at least 1."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= size:
            return f"{digits(num_bytes / size)} {unit}"
    return f"{num_bytes:,.0f} B"
