"""A sandbox is forked, and a snapshot with a name moves to the newest state. Early SDKs have neither."""

from counter import count, start_counter
from e2b import Sandbox

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
for each in (*forks, sandbox, clone, earlier):
    each.kill()
