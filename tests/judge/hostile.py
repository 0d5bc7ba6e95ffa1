"""Files that attack the judge or the machine: a solved phase 1 whose `clamp` attacks on its first call."""

from dataclasses import dataclass

from tests.grading.checkout import solution, with_line

MARK = "mini_vllm_judge_was_here"
OUTSIDE = f"""
for folder in ('/tmp', '/var/tmp', '/course', '/course/labs', '/', os.path.dirname(os.__file__), os.getcwd()):
    try: open(os.path.join(folder, '{MARK}'), 'w').write('x')
    except OSError: pass
"""
FORK = """
for _ in range(300):
    try:
        if os.fork() == 0:
            time.sleep(60)
    except OSError: break
"""
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(120)
    os._exit(0)
"""
NETWORK = """
s = __import__('socket')
for address in (('127.0.0.1', PORT), ('::1', PORT), ('8.8.8.8', 53)):
    try: s.create_connection(address, 0.3).sendall(b'hello')
    except OSError: pass
"""
KILL = """
for pid in (os.getppid(), 1, JUDGE, -1, 0):
    if pid != os.getpid():
        try: os.kill(pid, 9)
        except OSError: pass
"""
SNOOP = """
found = []
for pid in os.listdir('/proc'):
    for name in ('environ', 'cmdline', 'mem', 'maps'):
        try: found.append(open(f'/proc/{pid}/{name}', 'rb').read(100000))
        except Exception: pass
if b'SECRET' in b''.join(found): raise SystemExit('the secret is known')
for path in ('CHECKOUT/solutions', 'CHECKOUT/tests', 'CHECKOUT/.git'):
    try: os.listdir(path)
    except OSError: continue
    raise SystemExit('the course can be read')
"""
FORGERY = """
import gc, json
gc.unfreeze()  # else it is not listed
for end in [thing for thing in gc.get_objects() if type(thing).__name__ == 'Channel']:
    text = b'\\n' + end._mark + CONTENT
    while text:
        text = text[os.write(end._write_fd, text):]
"""
ANSWER = FORGERY.replace("CONTENT", "json.dumps(FORGED).encode() + b'\\n'")
HEIR = """
import gc
gc.unfreeze()
(end,) = [thing for thing in gc.get_objects() if type(thing).__name__ == 'Channel']
end.send({'answer': []})
while True:
    asked = end.receive()
    end.send({'answer': 'fresh' in asked or asked.get('echo')})
"""
RAW = "for fd in range(3, 30):\n    try: os.write(fd, BYTES)\n    except OSError: pass\n"
SWALLOW = "while True:\n try:\n  while True: pass\n except BaseException:\n  pass\n"
# The loader rejects files that import the course, so these files find its modules in a different way.
MODULES = """
import sys
of = lambda name: sys.modules['.'.join(('mini_vllm_labs', 'classroom', 'worker', name))]
answers, drivers, script = map(of, ('answers', 'drivers', 'script'))
"""
PATCH = f"""{MODULES}
answers.raised = drivers.replay = script.replay = answers.Describer.__call__ = lambda *a, **k: True
class Equal(int):
    __eq__ = __ne__ = lambda self, other: True
    __hash__ = int.__hash__
global max
max = lambda *numbers: Equal(7)
"""
COUNT_AS_RIGHT = f"""{MODULES}
for module in list(sys.modules.values()):
    if getattr(module, '__name__', '').endswith('phase1_plays'):
        module.number = lambda answer: 7
"""


@dataclass(frozen=True)
class Hostile:
    """An attack by `clamp`, and part of the first group's failure message ("" for no failure)."""

    name: str
    code: str
    message: str = ""
    is_for_jail: bool = False

    def text(self, **names: str) -> str:
        """Return the file, with placeholders such as PORT filled in."""
        code = self.code
        for name, value in names.items():
            code = code.replace(name, value)
        attack = "\n".join(f"    {line}" for line in code.splitlines())
        text = with_line(solution(1), "clamp", "if not _seen: _seen.append(1); _attack()")
        return f"{text}\n\n_seen = []\n\n\ndef _attack():\n    import os, time\n{attack}\n"


GARBLED = "cannot read"
ENDED = "ended the whole process"
LATE = "No answer within"
HOSTILE = (
    Hostile("a flood of output", "os.write(2, b'x' * 10**7); os.write(1, b'x' * 10**7)"),
    Hostile("os._exit", "os._exit(0)", ENDED),
    Hostile("an endless loop that swallows all", SWALLOW, LATE),
    Hostile("ends as if it made room for a fresh process", "os._exit(75)", LATE),
    Hostile("answers for its successor", HEIR, ": expected ", is_for_jail=True),
    Hostile("leaves its pipes non-blocking", "for fd in range(3, 30):\n"
            "    try: os.set_blocking(fd, False)\n    except OSError: pass"),
    Hostile("sleeps", "time.sleep(99)", LATE),
    Hostile("a crash", "__import__('ctypes').string_at(0)", ENDED),
    Hostile("raises SystemExit", "raise SystemExit(0)", "ended the program"),
    Hostile("raises KeyboardInterrupt", "raise KeyboardInterrupt", "KeyboardInterrupt"),
    Hostile("much memory", "bytearray(10**11)", "MemoryError"),
    Hostile("garbage on every file descriptor", RAW.replace("BYTES", "b'garbage' * 100"), GARBLED),
    Hostile("lines without the mark", RAW.replace("BYTES", "b'\\n{\"answer\": [0]}\\n' * 1000"), GARBLED),
    Hostile("a giant message", FORGERY.replace("CONTENT", "b'x' * 10**8"), GARBLED),
    Hostile("an empty message", FORGERY.replace("CONTENT", "b'\\n'"), GARBLED),
    Hostile("deep JSON", FORGERY.replace("CONTENT", "b'[' * 16384 + b'\\n'"), GARBLED),
    Hostile("a flood of answers", ANSWER.replace("FORGED", "{'answer': []}")
            .replace("while text", "while True").replace("text = text[", "text[")
            , "answer"),
    Hostile("a giant number", ANSWER.replace("FORGED", "{'answer': 10 ** 4000}"), GARBLED),
    Hostile("a forged answer", ANSWER.replace("FORGED", "{'answer': [0] * 21}"), "the first that differs"),
    Hostile("more answers than questions", ANSWER.replace("FORGED", "{'answer': [0] * 90}"), ": expected "),
    Hostile("a text for an answer", ANSWER.replace("FORGED", "{'answer': 'right'}"), ": expected "),
    Hostile("an answer and an error", ANSWER.replace("FORGED", "{'answer': [], 'error': [1]}"), GARBLED),
    Hostile("a call to the judge", ANSWER.replace("FORGED", "{'call': [9, 'eval', [], []]}"), GARBLED),
    Hostile("an exception like the contract's", ANSWER.replace(
        "FORGED", "{'answer': [{'raises': 'ValueError', 'text': 'none'}] * 21}"), "none"),
    Hostile("a pickle", ANSWER.replace("FORGED", "{'answer': {'pickle': 'gASVCg=='}}"), ": expected "),
    Hostile("always equal, and patches of the judge's modules", PATCH, "differs"),
    Hostile("a play that always sees 7", COUNT_AS_RIGHT, "differs"),
    Hostile(
        "imports the solutions",
        "import sys; sys.modules.pop('solutions', None); __import__('solu' + 'tions.phase1_scheduler_step')",
        "No module named",
        is_for_jail=True,
    ),
    Hostile("forks a lot", FORK, is_for_jail=True),
    Hostile("leaves a daemon", DAEMON, "PermissionError", is_for_jail=True),
    Hostile("writes files", OUTSIDE, is_for_jail=True),
    Hostile("opens the network", NETWORK, is_for_jail=True),
    Hostile("kills the judge", KILL, ENDED, is_for_jail=True),
    Hostile("reads memory, environment, command lines, the course", SNOOP, is_for_jail=True),
)  # fmt: skip
