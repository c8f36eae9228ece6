"""Contexts, REPLs, files, lists and times of a sandbox."""

import os

from sandbox0 import APIError, Client
from sandbox0.apispec.models.sandbox_config import SandboxConfig
from sandbox0.apispec.models.sandbox_refresh_request import SandboxRefreshRequest
from sandbox0.sandbox import CmdOptions

client = Client(token=os.environ["SANDBOX0_TOKEN"], base_url=os.environ["SANDBOX0_BASE_URL"])
with client.sandboxes.open("default", config=SandboxConfig(ttl=600, hard_ttl=1200)) as sandbox:
    # A REPL keeps its state, in Python and in a shell.
    assert sandbox.run("python", "x = 41").output_raw == ""
    assert sandbox.run("python", "print('a')\nx + 1").output_raw == "a\n42\n"
    assert "ZeroDivisionError" in sandbox.run("python", "1 / 0").output_raw
    assert sandbox.run("sh", "cd /tmp; v='a b'").output_raw == ""
    assert sandbox.run("sh", 'pwd; echo "$v"; echo ü >&2').output_raw == "/tmp\na b\nü\n"
    assert len(sandbox.list_contexts()) == 2

    # A command in the background gets input, and is known for a moment after its end.
    options = CmdOptions(command=["sh", "-c", "read line; echo got $line; exit 4"], wait=False)
    context = sandbox.cmd("cat", options).context_id
    assert sandbox.get_context(context).running
    assert sandbox.context_input(context, "text\n").data.written
    while sandbox.get_context(context).running:
        pass
    over = sandbox.get_context(context)
    assert (over.stdout, over.exit_code) == ("got text\n", 4), over
    sleeping = sandbox.cmd("sleep 1000", CmdOptions(wait=False, pty_rows=24, pty_cols=80)).context_id
    assert sandbox.context_resize(sleeping, 30, 100).data.resized
    assert sandbox.context_signal(sleeping, "SIGINT").data.signaled
    while sandbox.get_context(sleeping).running:
        pass
    again = sandbox.cmd("sleep 1000", CmdOptions(wait=False)).context_id
    assert sandbox.delete_context(again).data.deleted
    environment = CmdOptions(command=["sh", "-c", "echo $WHO; pwd"], env_vars={"WHO": "me"}, cwd="/var")
    assert sandbox.cmd("x", environment).stdout == "me\n/var\n"

    # Files.
    assert sandbox.mkdir("/work/a", recursive=True).data.created
    assert sandbox.write_file("/work/a/one", b"\x00\xff").data.written
    assert sandbox.read_file("/work/a/one") == b"\x00\xff"
    info = sandbox.stat_file("/work/a/one")
    assert (info.name, info.type_.value, info.size) == ("one", "file", 2), info
    assert sandbox.move_file("/work/a/one", "/work/two").data.moved
    assert sorted((each.name, each.type_.value) for each in sandbox.list_files("/work")) == [("a", "dir"), ("two", "file")]
    assert sandbox.delete_file("/work/two").data.deleted
    for missing in (sandbox.read_file, sandbox.stat_file, sandbox.delete_file):
        try:
            missing("/work/two")
            raise AssertionError("a missing file was found")
        except APIError as error:
            assert error.status_code == 404, error

    # Times, lists and templates.
    first = client.sandboxes.get(sandbox.id)
    later = client.sandboxes.refresh(sandbox.id, SandboxRefreshRequest(duration=900))
    assert later.expires_at > first.expires_at and later.hard_expires_at > first.hard_expires_at, later
    assert sandbox.id in [each.id for each in client.sandboxes.list(template_id="default", paused=False)]
    assert client.sandboxes.list(status="paused", template_id="default", offset=1000) == []
    assert client.sandboxes.status(sandbox.id).status.value == "running"
    assert "python" in [each.template_id for each in client.list_templates()]
    assert client.get_template("python").spec.main_container.image == "python"
    gone = sandbox.id
try:
    while True:
        client.sandboxes.get(gone)
except APIError as error:
    assert error.status_code == 404, error
