"""The workflow "initialize once, claim many", block by block."""

import os
import time
from datetime import datetime, timedelta, timezone

from sandbox0 import APIError, Client
from sandbox0.apispec.models.create_sandbox_root_fs_snapshot_request import CreateSandboxRootFSSnapshotRequest
from sandbox0.apispec.models.restore_sandbox_root_fs_request import RestoreSandboxRootFSRequest
from sandbox0.apispec.models.sandbox_config import SandboxConfig

client = Client(token=os.environ["SANDBOX0_TOKEN"], base_url=os.environ["SANDBOX0_BASE_URL"])
sandboxes = client.sandboxes


def until_paused(sandbox_id):
    # The time limit of the whole program ends a wait without success.
    while sandboxes.get(sandbox_id).status.value != "paused":
        time.sleep(0.1)


def fails(status, code, run):
    try:
        run()
    except APIError as error:
        assert error.status_code == status, error
        assert error.code == code or f'"code":"{code}"' in error.message, error
        return
    raise AssertionError(f"{status} was expected")


# Start from a builtin template.
seed = sandboxes.claim("default", config=SandboxConfig(hard_ttl=86400))
assert seed.template == "default" and seed.status in ("running", "starting"), vars(seed)
before = sandboxes.get(seed.id)
assert before.hard_expires_at - before.claimed_at > timedelta(seconds=86000), before

# Initialize the environment inside the sandbox.
script = """
set -e
mkdir -p /workspace/project
printf "initialized at %s\\n" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" > /workspace/project/ENVIRONMENT
echo on stderr >&2
"""
from sandbox0.sandbox import CmdOptions

done = seed.cmd("init", CmdOptions(command=["/bin/sh", "-lc", script]))
assert (done.exit_code, done.stdout, done.stderr) == (0, "", "on stderr\n"), done
assert seed.cmd("sh -c 'exit 3'").exit_code == 3
seed.write_file("/workspace/who", b"seed")
assert seed.read_file("/workspace/who") == b"seed"

# Restore is only for paused sandboxes.
fails(409, "conflict", lambda: sandboxes.restore_rootfs(seed.id, RestoreSandboxRootFSRequest(snapshot_id="x")))

# Pause, and wait for the rootfs checkpoint.
sandboxes.pause(seed.id)
until_paused(seed.id)
paused = sandboxes.get(seed.id)
assert paused.paused and paused.hard_expires_at == before.hard_expires_at, paused
fails(409, "conflict", lambda: seed.read_file("/workspace/who"))

# Create a named rootfs snapshot. Its name is no object name, and is not unique.
expires = datetime.now(timezone.utc) + timedelta(hours=1)
request = CreateSandboxRootFSSnapshotRequest(
    name="Python test tools / v1", description="default template with venv, ruff, and pytest", expires_at=expires
)
snapshot = sandboxes.create_rootfs_snapshot(seed.id, request)
again = sandboxes.create_rootfs_snapshot(seed.id, CreateSandboxRootFSSnapshotRequest(name="Python test tools / v1"))
assert (snapshot.name, snapshot.sandbox_id) == ("Python test tools / v1", seed.id), snapshot
assert abs(snapshot.expires_at - expires) < timedelta(seconds=1), snapshot
assert snapshot.id != again.id
listed = sandboxes.list_rootfs_snapshots(seed.id)
assert {each.id for each in listed} == {snapshot.id, again.id}, listed
assert sandboxes.get_rootfs_snapshot(snapshot.id).description == request.description
past = CreateSandboxRootFSSnapshotRequest(expires_at=datetime.now(timezone.utc) - timedelta(hours=1))
fails(400, "bad_request", lambda: sandboxes.create_rootfs_snapshot(seed.id, past))

# Claim a fresh task sandbox from the same template and the snapshot.
task = sandboxes.claim("default", config=SandboxConfig(hard_ttl=3600), snapshot_id=snapshot.id)
assert task.id != seed.id
assert task.read_file("/workspace/project/ENVIRONMENT").startswith(b"initialized at ")
task.write_file("/workspace/who", b"task")
fails(404, "not_found", lambda: sandboxes.claim("default", snapshot_id="rootfs-snapshot-none"))
fails(404, "not_found", lambda: sandboxes.claim("unknown"))

# A snapshot of a running sandbox.
running = sandboxes.create_rootfs_snapshot(task.id, CreateSandboxRootFSSnapshotRequest(name="running"))
assert sandboxes.get(task.id).status.value == "running"

# Restore a paused sandbox, which stays paused.
restored = sandboxes.restore_rootfs(seed.id, RestoreSandboxRootFSRequest(snapshot_id=running.id))
assert (restored.sandbox_id, restored.snapshot_id, restored.status.value) == (seed.id, running.id, "paused"), restored

# Fork a paused sandbox into a paused one.
fork = sandboxes.fork(seed.id)
assert fork.source_sandbox_id == seed.id and fork.sandbox.id != seed.id and fork.sandbox.paused, fork
assert fork.sandbox.template_id == "default", fork

# Sandboxes that were claimed, restored or forked do not need the snapshots or the seed.
for each in (snapshot, again, running):
    assert sandboxes.delete_rootfs_snapshot(each.id).data.deleted
    fails(404, "not_found", lambda: sandboxes.get_rootfs_snapshot(each.id))
assert sandboxes.list_rootfs_snapshots(seed.id) == []
generation = sandboxes.get(seed.id).runtime_generation
assert sandboxes.resume(seed.id).resumed
assert sandboxes.get(seed.id).runtime_generation > generation
assert seed.read_file("/workspace/who") == b"task"
sandboxes.delete(seed.id)
forked = sandboxes.sandbox(fork.sandbox.id)
assert sandboxes.resume(forked.id).resumed
assert forked.read_file("/workspace/who") == b"task"
assert task.read_file("/workspace/who") == b"task"
for each in (task, forked):
    sandboxes.delete(each.id)
