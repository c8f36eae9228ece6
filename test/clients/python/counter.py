"""A program whose state is in its memory: it counts the lines that it reads from a pipe."""

import time

COMMAND = """echo 0 >/tmp/count && mkfifo /tmp/in && python3 -c '
n = 0
while True:
    for line in open("/tmp/in"):
        n += 1
        open("/tmp/count", "w").write(str(n))
'"""


def start_counter(sandbox):
    sandbox.commands.run(COMMAND, background=True)
    until(lambda: sandbox.files.exists("/tmp/in"))


def count(sandbox, expected):
    """Sends a line to the counter, which must then have counted the expected number."""
    sandbox.commands.run("echo >/tmp/in")
    until(lambda: sandbox.files.read("/tmp/count") == str(expected))


def until(holds):
    """The time limit of the whole program ends a wait without success."""
    while not holds():
        time.sleep(0.05)
