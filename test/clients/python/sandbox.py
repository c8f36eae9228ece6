"""A sandbox runs commands, serves files, and is found, connected and deleted."""

from counter import until
from e2b import CommandExitException, NotFoundException, Sandbox, SandboxQuery
from gone import ask_in_vain

sandbox = Sandbox.create(envs={"GREETING": "hello"}, metadata={"owner": "a&b=c"})
assert sandbox.is_running()

result = sandbox.commands.run("echo $GREETING")
assert (result.stdout, result.exit_code) == ("hello\n", 0), result
try:
    sandbox.commands.run("echo bad >&2; exit 3")
    raise AssertionError("a command with exit code 3 was successful")
except CommandExitException as error:
    assert (error.exit_code, error.stderr) == (3, "bad\n"), error

lines = []
sandbox.commands.run("for i in 1 2 3; do echo $i; done", on_stdout=lines.append)
assert "".join(lines) == "1\n2\n3\n", lines

sandbox.files.write("/tmp/dir/a", "text")
assert sandbox.files.read("/tmp/dir/a") == "text"
sandbox.files.write("/tmp/dir/b", bytes(range(256)))
assert bytes(sandbox.files.read("/tmp/dir/b", format="bytes")) == bytes(range(256))
assert sorted(entry.name for entry in sandbox.files.list("/tmp/dir")) == ["a", "b"]
assert sandbox.files.exists("/tmp/dir/a") and not sandbox.files.exists("/tmp/dir/c")
sandbox.files.rename("/tmp/dir/a", "/tmp/dir/c")
sandbox.files.remove("/tmp/dir/c")
assert [entry.name for entry in sandbox.files.list("/tmp/dir")] == ["b"]

info = sandbox.get_info()
assert info.template_id == "base" and info.metadata == {"owner": "a&b=c"}, info
same = Sandbox.connect(sandbox.sandbox_id)
assert same.sandbox_id == sandbox.sandbox_id

found = []
listed = Sandbox.list(query=SandboxQuery(metadata={"owner": "a&b=c"}), limit=1)
while listed.has_next:
    found += listed.next_items()
assert [each.sandbox_id for each in found] == [sandbox.sandbox_id], found

assert sandbox.kill() is True
until(lambda: sandbox.kill() is False)
assert sandbox.is_running() is False
ask_in_vain(sandbox)
try:
    sandbox.get_info()
    raise AssertionError("a deleted sandbox was found")
except NotFoundException:
    pass
