"""What a client learns from the answers of a sandbox that does not run."""

import e2b

# Earlier SDKs report a timeout.
NotRunning = getattr(e2b, "SandboxNotRunningException", e2b.TimeoutException)


def ask_in_vain(sandbox):
    for ask in (lambda: sandbox.commands.run("true"), lambda: sandbox.files.read("/etc/hosts")):
        try:
            ask()
        except NotRunning:
            continue
        raise AssertionError("a sandbox that does not run has answered")
