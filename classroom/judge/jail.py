"""The jail: bubblewrap around a worker. No network, no other processes, and only the files that it needs.

A filter of system calls leaves one process with threads, without what opens the kernel wide. It is libseccomp's;
bubblewrap installs it just before Python starts. A denied call fails with EPERM.
"""

import compileall
import errno
import mmap
import os
import shutil
import site
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT

NO_MORE_PROCESSES = ("fork", "vfork")
NEW_NAMESPACES = ("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen")
KEYS = ("keyctl", "add_key", "request_key")
OTHER_PROCESSES = ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "pidfd_open")
# Memory that the limit on data does not count.
SHARED_MEMORY = ("memfd_create", "memfd_secret", "shmget", "shmat")
KERNEL = (
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("open_by_handle_at", "name_to_handle_at", "personality", "syslog", "quotactl", "acct", "reboot", "kexec_load"),
    *("init_module", "finit_module", "delete_module", "fanotify_init", "lookup_dcookie", "vhangup", "swapon"),
)
DENIED = (*NO_MORE_PROCESSES, *NEW_NAMESPACES, *KEYS, *OTHER_PROCESSES, *SHARED_MEMORY, *KERNEL)
CLONE_THREAD = 0x10000


class NoFilterError(ValueError):
    """libseccomp, or its binding, is missing."""


def filter_program() -> bytes:
    """Return the filter as a BPF program. Raises `NoFilterError` if there is no libseccomp."""
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError) as error:
        raise NoFilterError(
            f"system calls cannot be filtered: {error}; it needs libseccomp2 and pyseccomp, "
            "which tools/install_jail.sh and the extra 'judge' install"
        ) from None
    deny, rules = pyseccomp.ERRNO(errno.EPERM), pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in DENIED:
        number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
        if number >= 0:  # else this libseccomp, or this processor, has no such call
            rules.add_rule(deny, number)
    masked = pyseccomp.MASKED_EQ
    rules.add_rule(deny, "clone", pyseccomp.Arg(0, masked, CLONE_THREAD, 0))
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")  # libc then takes `clone`, whose flags can be read
    anonymous = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
    rules.add_rule(deny, "mmap", pyseccomp.Arg(3, masked, anonymous, anonymous))
    rules.add_rule(deny, "socket", pyseccomp.Arg(0, pyseccomp.NE, socket.AF_UNIX))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def as_open_file(program: bytes) -> int:
    """Return a descriptor, for a child process, from which the program can be read once."""
    number = os.memfd_create("seccomp", 0)
    os.write(number, program)
    os.lseek(number, 0, os.SEEK_SET)
    return number


COURSE = Path("/course")
TEMPORARY_BYTES = 16 * 2**20
FIRST_USER = 1_900_000_000  # user ids from here on are unused
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
LINKER = ("/etc/ld.so.cache",)
SEEN = ("mini_vllm", "course/__init__.py", "course/sandbox", "classroom/__init__.py", "classroom/worker")
SECRET_PACKAGES = ("solutions", "labs", "mini_vllm", "course", "cli", "classroom", "tests")
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "USER": "worker",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from classroom.worker.inside import main; main()"
)  # fmt: skip
HOW_TO_INSTALL = "tools/install_jail.sh installs it on Debian and Ubuntu"
WITHOUT = "Without a jail submissions can read, write and send whatever you can: --no-jail, for files you trust only."


class JailError(ValueError):
    """There is no jail, or it leaks."""


@dataclass(frozen=True)
class Jail:
    """How workers are started: inside bubblewrap and a filter of system calls, or without a jail (`program` None)."""

    program: str | None = None
    limits_temporary: bool = False
    system_calls: bytes = b""

    @contextmanager
    def open_filter(self) -> Iterator[tuple[int, ...]]:
        """Open the filter for one worker to inherit; nothing without a jail."""
        if not self.is_a_jail:
            yield ()
            return
        number = as_open_file(self.system_calls)
        try:
            yield (number,)
        finally:
            os.close(number)

    def command(self, labs: Path, arguments: list[str], inherited: Sequence[int] = ()) -> list[str]:
        """Return the command that runs Python with `arguments` on the starters under `labs`.

        `inherited` is what `open_filter` gave.
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
        for path in SYSTEM:
            if os.path.islink(path):
                options += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                options += ["--ro-bind", path, path]
        temporary = [*(("--size", str(TEMPORARY_BYTES)) if self.limits_temporary else ()), "--perms", "1777"]
        options += [*temporary, "--tmpfs", "/tmp"]  # before Python's folders, which may lie below it
        for path in (*LINKER, *python_folders()):
            if os.path.exists(path):
                options += [*folders_above(path), "--ro-bind", path, path]
        for path in secret_packages():
            options += ["--tmpfs", path, "--remount-ro", path]
        options += [*self._course(labs), "--proc", "/proc", "--dev", "/dev"]
        options += [] if self.limits_temporary else ["--remount-ro", "/tmp"]
        options += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(COURSE)]
        return [self.program, *options, "--", *python]

    def _course(self, labs: Path) -> list[str]:
        options = ["--ro-bind", str(labs), str(COURSE / "labs")]
        for path in SEEN:  # folders that bwrap makes by itself could be entered by root alone
            options += [*folders_above(str(COURSE / path)), "--ro-bind", str(CHECKOUT / path), str(COURSE / path)]
        return ["--perms", "0755", "--dir", str(COURSE), *options]

    @property
    def is_a_jail(self) -> bool:
        return self.program is not None

    def boot(self, submission_dir: Path, user: int) -> list[str]:
        """Return the arguments that start a worker. Without a jail the course is the copy in `submission_dir`."""
        course = COURSE if self.is_a_jail else submission_dir
        return ["-c", BOOT, str(course), str(user if self.is_a_jail else 0)]


def find_jail() -> Jail:
    """Return the jail of this system. Raises `JailError` if bubblewrap is missing."""
    program = shutil.which("bwrap")
    if program is None:
        raise JailError(f"there is no jail: bubblewrap (bwrap) is not installed; {HOW_TO_INSTALL}. {WITHOUT}")
    usage = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    try:
        return Jail(program, "--size" in usage.stdout + usage.stderr, filter_program())
    except NoFilterError as error:
        raise JailError(f"there is no whole jail: {error}. {WITHOUT}") from None


def compile_course() -> None:
    """Compile what workers see. They cannot write, so that each of them would compile it again, a third of its start.

    A checkout that cannot be written to stays as it is.
    """
    for path in (CHECKOUT / name for name in SEEN):
        compile_one = compileall.compile_dir if path.is_dir() else compileall.compile_file
        compile_one(path, quiet=2)


def python_folders() -> list[str]:
    """Return the folders that Python and its packages are in, outer ones only."""
    found = {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), *site.getsitepackages()}
    real = sorted({str(Path(path)) for path in found} | {str(Path(path).resolve()) for path in found})
    outer = [path for path in real if not any(path.startswith(other + "/") for other in [*real, *SYSTEM])]
    return [path for path in outer if path not in SYSTEM]


def folders_above(path: str) -> list[str]:
    """Return options that make the folders above a path, searchable for every user."""
    options = []
    for folder in list(Path(path).parents)[-2::-1]:
        options += ["--perms", "0755", "--dir", str(folder)]
    return options


def secret_packages() -> list[str]:
    """Return the folders of an installed copy of the course, which must not be visible."""
    folders = {path for path in [*site.getsitepackages(), sysconfig.get_path("purelib")] if path}
    return sorted(f"{folder}/{name}" for folder in folders for name in SECRET_PACKAGES if Path(folder, name).is_dir())
