"""The jail: bubblewrap around a worker, with no network or other processes, and only the files that the worker needs.

The jail has no writable files, because no limit counts the memory of an in-memory file system.
"""

import compileall
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.judge.needed_files import SEEN
from mini_vllm_labs.classroom.judge.system_calls import NoFilterError, as_open_file, filter_programs
from mini_vllm_labs.classroom.judge.visible_files import file_options

COURSE = Path("/course")
FIRST_USER = 1_900_000_000  # user ids from this number on are unused
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "USER": "worker",
    "LANG": "C",  # makes `locale.setlocale(LC_ALL, "")` work: other locales need files that are missing here
    "PYTHONUTF8": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONBREAKPOINT": "0",  # as in `mini-vllm grade`, which reports a forgotten breakpoint
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TORCHINDUCTOR_CACHE_DIR": "/tmp",  # otherwise, torch would look for a writable folder, and there is none
}
BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from mini_vllm_labs.classroom.worker.inside import main; main()"
)  # fmt: skip
HOW_TO_INSTALL = "mini_vllm_labs/upkeep/install_jail.sh installs it on Debian and Ubuntu"
WITHOUT = "Without a jail submissions can read, write and send whatever you can: use --no-jail only for trusted files."


class JailError(ValueError):
    """The jail is missing or leaks."""


@dataclass(frozen=True)
class Jail:
    """Starts workers inside bubblewrap with a system call filter, or without a jail if `program` is None.

    `no_processes` is the filter that a worker itself installs before it loads a learner's file.
    """

    program: str | None = None
    system_calls: bytes = b""
    no_processes: bytes = b""

    @contextmanager
    def open_filter(self) -> Iterator[tuple[int, ...]]:
        """Open the filter for one worker to inherit; without a jail, yield an empty tuple."""
        if not self.is_a_jail:
            yield ()
            return
        number = as_open_file(self.system_calls)
        try:
            yield (number,)
        finally:
            os.close(number)

    def command(self, course: Path, arguments: list[str], inherited: Sequence[int] = ()) -> list[str]:
        """Return the command that runs Python with `arguments` on the modules and starters in `course`.

        `inherited` contains the descriptors from `open_filter`.
        """
        python = [sys.executable, "-P", "-s", "-B", "-X", "utf8", *arguments]
        if self.program is None:
            return python
        root = os.getuid() == 0
        options = [
            *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
            *("--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"),
            *(("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID") if root else ("--unshare-user",)),
        ]
        for number in inherited:
            options += ["--seccomp", str(number)]
        for name, value in ENVIRONMENT.items():
            options += ["--setenv", name, value]
        options += file_options()
        options += ["--ro-bind", str(course), str(COURSE), "--perms", "0755", "--dir", "/tmp"]
        options += ["--proc", "/proc", "--dev", "/dev"]
        for path in ("/proc", "/dev", "/"):  # /proc/self/mem can write where the process itself cannot
            options += ["--remount-ro", path]
        options += ["--chdir", str(COURSE)]
        return [self.program, *options, "--", *python]

    @property
    def is_a_jail(self) -> bool:
        return self.program is not None

    def boot(self, course: Path, user: int, modules: Iterable[str]) -> list[str]:
        """Return the arguments that start a worker on the starters in `course`, which imports `modules` first."""
        course = COURSE if self.is_a_jail else course
        return ["-c", BOOT, str(course), " ".join(modules), self.no_processes.hex(), str(user if self.is_a_jail else 0)]


def find_jail() -> Jail:
    """Return this system's jail. Raises `JailError` if bubblewrap is missing."""
    program = shutil.which("bwrap")
    if program is None:
        raise JailError(f"no jail is available: bubblewrap (bwrap) is not installed; {HOW_TO_INSTALL}. {WITHOUT}")
    try:
        return Jail(program, *filter_programs())
    except NoFilterError as error:
        raise JailError(f"the jail is incomplete: {error}. {WITHOUT}") from None


def compile_course() -> None:
    """Compile the modules that workers see, because workers cannot write files, and each would have to compile them
    again.

    A read-only checkout is left unchanged.
    """
    for path in (CHECKOUT / name for name in SEEN):
        compile_one = compileall.compile_dir if path.is_dir() else compileall.compile_file
        compile_one(path, quiet=2)
