"""Exceptions for outcomes of a graded test that built-in exceptions do not describe well."""


class OutOfTime(BaseException):
    """The code was still running when its test's time limit was reached.

    This exception does not derive from `Exception`; otherwise, `except Exception` in a learner's loop would catch it
    and continue.
    """

    seconds = 0.0

    def __str__(self) -> str:
        return f"still running after {self.seconds:g} second{'' if self.seconds == 1 else 's'}"


class UnusableAnswerError(Exception):
    """The learner's code returned or changed a value in a way that prevents the test from continuing.

    Its message needs no further explanation.
    """


class StarterNotLoadedError(Exception):
    """The learner's file cannot be imported. The message gives the reason."""


def out_of_time_after(limit: float) -> type[OutOfTime]:
    """Return an exception class for a limit, because only a class can be raised in another thread."""

    class OutOfTimeAfter(OutOfTime):
        seconds = limit

    return OutOfTimeAfter
