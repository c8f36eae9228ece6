"""A sandbox is forked, a snapshot with a name moves to the newest state, and a pause is strict. Early SDKs have none of it."""

from counter import count, start_counter
from e2b import ConnectionConfig, Sandbox, SandboxException
from e2b.api.client.api.sandboxes import get_sandboxes_sandbox_id as get_sandbox
from e2b.api.client_sync import get_api_client

sandbox = Sandbox.create()
start_counter(sandbox)
count(sandbox, 1)
forks = sandbox.fork(count=2)
assert len(forks) == 2, forks
for each in (*forks, sandbox):
    count(each, 2)

sandbox.files.write("/tmp/state", "first")
first = sandbox.create_snapshot(name="python-state")
sandbox.files.write("/tmp/state", "second")
second = sandbox.create_snapshot(name="python-state")
assert first.snapshot_id != second.snapshot_id, (first, second)
clone = Sandbox.create("python-state")
assert clone.files.read("/tmp/state") == "second"
earlier = Sandbox.create(first.snapshot_id)
assert earlier.files.read("/tmp/state") == "first"
assert Sandbox.delete_snapshot(first.snapshot_id) is True
assert Sandbox.delete_snapshot(second.snapshot_id) is True
assert sandbox.pause(strict=True) is True
assert sandbox.get_info().envd_unresponsive_at_pause is None
api = get_api_client(ConnectionConfig())
assert get_sandbox.sync(sandbox.sandbox_id, client=api).pause_mode == "full"
try:
    sandbox.connect(on_resume="reboot")
    raise AssertionError("the memory of a pause was dropped")
except SandboxException as error:
    assert "memory: false is not supported" in str(error), error
sandbox.connect()
sandbox.pause(mode="filesystem")
assert get_sandbox.sync(sandbox.sandbox_id, client=api).pause_mode == "filesystem"
sandbox.connect(on_resume="reboot")
assert sandbox.files.read("/tmp/state") == "second"
for each in (*forks, sandbox, clone, earlier):
    each.kill()
