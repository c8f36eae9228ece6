"""The program of ACS' page "Clone an Agent Sandbox with Checkpoint"."""

from e2b_code_interpreter import Sandbox

sbx_with_mem = Sandbox.create("code-interpreter-mem")
sbx_no_mem = Sandbox.create("code-interpreter-no-mem")


def init_mem_fs(sbx):
    sbx.run_code("a = 1")
    sbx.files.write("/my-file", "hello")
    print(sbx.run_code("print(a)"))
    print(sbx.files.read("/my-file"))


init_mem_fs(sbx_with_mem)
init_mem_fs(sbx_no_mem)

sbx_with_mem = Sandbox.connect(sbx_with_mem.sandbox_id)
sbx_no_mem = Sandbox.connect(sbx_no_mem.sandbox_id)
snapshot_with_mem = sbx_with_mem.create_snapshot()
snapshot_no_mem = sbx_no_mem.create_snapshot(
    headers={
        "x-e2b-kruise-snapshot-keep-running": "true",
        "x-e2b-kruise-snapshot-ttl": "30m",
        "x-e2b-kruise-snapshot-persistent-contents": "filesystem",
        "x-e2b-kruise-snapshot-wait-success-seconds": "60",
    }
)
sbx_with_mem.kill()
sbx_no_mem.kill()

clone_with_mem = Sandbox.create(snapshot_with_mem.snapshot_id)
clone_no_mem = Sandbox.create(snapshot_no_mem.snapshot_id)
print(clone_with_mem.run_code("print(a)"))
print(clone_with_mem.files.read("/my-file"))
without = clone_no_mem.run_code("print(a)")
assert without.logs.stdout == [] and without.results == [], without
print(without.error.name, without.error.value)
print(clone_no_mem.files.read("/my-file"))
clone_with_mem.kill()
clone_no_mem.kill()
