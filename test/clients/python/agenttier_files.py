"""Files, ports, the agent, templates and the caller of the client of AgentTier."""

import io
import os
import tempfile
import zipfile

import httpx
from agenttier import AgentTierClient
from agenttier.exceptions import APIError, NotFoundError

url = os.environ["AGENTTIER_API_URL"]
key = os.environ["AGENTTIER_API_KEY"]

with AgentTierClient(api_url=url) as client, tempfile.TemporaryDirectory() as local:
    sandbox = client.create_sandbox(template="python", name="files")
    sandbox.wait_until_running(poll_interval=0.2)
    files = sandbox.files

    assert files.list() == []
    files.write("/workspace/dir/a b.txt", "text")
    files.write("/workspace/bytes", bytes(range(256)))
    assert files.read("/workspace/dir/a b.txt") == b"text"
    assert files.read("/workspace/bytes") == bytes(range(256))
    entries = {entry.name: entry for entry in files.list("/workspace")}
    assert sorted(entries) == ["bytes", "dir"], entries
    assert entries["dir"].is_dir and not entries["bytes"].is_dir and entries["bytes"].size == 256, entries
    assert entries["bytes"].mode.startswith("-rw") and entries["bytes"].modified_at > 1_000_000_000, entries
    try:
        files.read("/workspace/missing")
        raise AssertionError("a missing file was read")
    except NotFoundError:
        pass
    try:
        files.list("/missing")
        raise AssertionError("a missing directory was listed")
    except NotFoundError:
        pass

    large = os.path.join(local, "large")
    with open(large, "wb") as file:
        file.write(os.urandom(files.MAX_BYTES))
    assert files.upload("/workspace/large", large) == files.MAX_BYTES
    assert files.download("/workspace/large", os.path.join(local, "copy")) == files.MAX_BYTES
    with open(large, "rb") as one, open(os.path.join(local, "copy"), "rb") as other:
        assert one.read() == other.read()
    for attempt in (
        lambda: files.write("/workspace/larger", bytes(files.MAX_BYTES + 1)),
        lambda: sandbox.exec("dd if=/dev/zero bs=1048576 count=33 of=/workspace/larger") and files.read("/workspace/larger"),
    ):
        try:
            attempt()
            raise AssertionError("a file of more than 32 MiB was transferred")
        except APIError as error:
            assert error.status_code == 413, error

    sandbox.exec("rm /workspace/larger; ln -s bytes /workspace/link; mkdir /workspace/empty")
    archive = os.path.join(local, "workspace.zip")
    assert files.archive(archive) == os.path.getsize(archive)
    with zipfile.ZipFile(archive) as zipped:
        assert zipped.testzip() is None
        assert sorted(zipped.namelist()) == ["bytes", "dir/", "dir/a b.txt", "empty/", "large"], zipped.namelist()
        assert zipped.read("bytes") == bytes(range(256))
    try:
        files.archive(archive, "/etc")
        raise AssertionError("a directory outside of the workspace was archived")
    except APIError as error:
        assert error.status_code == 400, error

    # Ports.
    sandbox.exec("cd /workspace/dir && nohup python3 -m http.server 8000 >/dev/null 2>&1 &")
    port = sandbox.forward_port(8000)
    assert (port.port, port.protocol) == (8000, "http"), port
    assert [each.port for each in sandbox.list_ports()] == [8000]
    headers = {"X-API-Key": key}
    for _ in range(100):
        page = httpx.get(f"{port.preview_url}a%20b.txt", headers=headers)
        if page.status_code == 200:
            break
        sandbox.exec("sleep 0.2")
    assert page.text == "text", page
    assert page.headers["content-security-policy"].startswith("sandbox "), page.headers
    assert httpx.head(f"{port.preview_url}a%20b.txt", headers=headers).headers["content-length"] == "4"
    assert httpx.post(f"{port.preview_url}x", headers=headers, content=b"body").status_code == 501
    assert httpx.get(port.preview_url).status_code == 401
    sandbox.remove_port(8000)
    assert sandbox.list_ports() == []
    assert httpx.get(port.preview_url, headers=headers).status_code == 404

    # The agent.
    try:
        sandbox.agent.invoke("x")
        raise AssertionError("a sandbox without an entrypoint was invoked")
    except APIError as error:
        assert error.status_code == 424, error
    program = "import sys\nprint('in', sys.stdin.read())\nprint(*sys.argv[1:], file=sys.stderr)\nsys.exit(4)\n"
    given = {
        "files": [{"path": "/workspace/agent.py", "content": program}, ("/workspace/raw", b"\xff\x00")],
        "install_command": ["sh", "-c", "echo installing; echo warning >&2"],
        "entrypoint": ["python3", "/workspace/agent.py"],
    }
    lines = []
    configured = sandbox.agent.configure(**given, on_log=lambda stream, line: lines.append((stream, line)))
    assert (configured.install_exit_code, configured.skipped) == (0, False), configured
    assert ("stdout", "installing") in lines and ("stderr", "warning") in lines, lines
    assert files.read("/workspace/raw") == b"\xff\x00"
    assert sandbox.agent.configure(**given).skipped
    log = httpx.get(f"{url}/api/v1/sandboxes/files/configure/install-log", headers=headers)
    assert "installing" in log.text, log
    result = sandbox.agent.invoke({"a": 1}, prompt="hello")
    assert (result.stdout, result.stderr) == ('in {"a": 1}', "--prompt=hello"), result
    assert (result.exit_code, result.reason) == (4, "completed"), result
    assert sandbox.agent.invoke(prompt="only").stdout == "in only"

    failed = sandbox.agent.configure(install_command=["sh", "-c", "exit 7"])
    assert failed.install_exit_code == 7, failed
    sandbox.agent.configure(entrypoint=["sh", "-c", "echo begun; sleep 1000"])
    assert sandbox.agent.invoke(invoke_timeout="1s").reason == "timeout"
    for event in (events := sandbox.agent.invoke_stream()):
        if event.event == "start":
            invocation = event.data["invokeId"]
        elif event.event == "log":
            sandbox.agent.invoke_cancel(invocation)
    assert (event.event, event.data["reason"]) == ("exit", "canceled"), event
    try:
        sandbox.agent.invoke_cancel(invocation)
        raise AssertionError("an invocation that has ended was canceled")
    except NotFoundError:
        pass

    # A clone has the agent and the files of its source.
    clone = sandbox.clone()
    clone.wait_until_running(poll_interval=0.2)
    clone.agent.configure(entrypoint=["cat", "/workspace/dir/a b.txt"])
    assert clone.agent.invoke().stdout == "text"
    clone.terminate()
    sandbox.terminate()

    names = [template.name for template in client.list_templates()]
    assert "python" in names, names
    template = client.get_template("python")
    assert template.image and template.spec["template"]["spec"]["containers"], template
    try:
        client.get_template("missing")
        raise AssertionError("a missing template was found")
    except NotFoundError:
        pass
    me = client.current_user()
    assert me.sub.startswith("system:serviceaccount:") and not me.is_admin, me
