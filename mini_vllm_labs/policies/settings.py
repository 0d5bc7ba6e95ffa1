"""Checks the parameters of policies."""


def require_positive(**settings: float) -> None:
    """Raise `ValueError` unless each setting is greater than 0."""
    for name, value in settings.items():
        if not value > 0:
            raise ValueError(f"{name} must be greater than 0, got {value!r}")
