"""A snapshot starts sandboxes with the memory of its source, which keeps running."""

from counter import count, start_counter
from e2b import Sandbox

source = Sandbox.create()
start_counter(source)
count(source, 1)
snapshot = source.create_snapshot()
clones = [Sandbox.create(snapshot.snapshot_id) for _ in range(2)]
for each in (*clones, source):
    count(each, 2)

listed = []
page = Sandbox.list_snapshots(sandbox_id=source.sandbox_id)
while page.has_next:
    listed += page.next_items()
assert [each.snapshot_id for each in listed] == [snapshot.snapshot_id], listed

source.kill()
later = Sandbox.create(snapshot.snapshot_id)
count(later, 2)
assert later.get_info().template_id == snapshot.snapshot_id
assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False
count(later, 3)
for each in (*clones, later):
    each.kill()
