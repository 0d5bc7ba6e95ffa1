"""Room for connections: each is an open file, and a process may by default open about a thousand."""

from importlib.util import find_spec

MAX_OPEN_FILES = 65536


def allow_many_connections() -> None:
    """Let this process open as many files as the system lets it, where it has such limits."""
    if find_spec("resource") is None:  # Windows
        return
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (MAX_OPEN_FILES if most == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, most), most)
    )
