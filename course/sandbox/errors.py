"""Ways for a graded test to end that no exception of Python says well enough."""


class OutOfTime(BaseException):
    """The code was still running when the time of its test was over."""

    seconds = 0.0

    def __str__(self) -> str:
        return f"still running after {self.seconds:g} second{'' if self.seconds == 1 else 's'}"


class UnusableAnswerError(Exception):
    """The test could not go on with what the learner's code gave back or left behind. Its text says all."""


class StarterNotLoadedError(Exception):
    """The learner's file cannot be imported. Its text says why."""


def out_of_time_after(limit: float) -> type[OutOfTime]:
    """Return the exception for a limit, as a class: that is what can be raised in another thread."""

    class OutOfTimeAfter(OutOfTime):
        seconds = limit

    return OutOfTimeAfter
