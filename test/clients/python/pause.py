"""A sandbox is paused and resumed with its processes, several times."""

from counter import count, start_counter
from e2b import Sandbox, SandboxQuery, SandboxState
from gone import ask_in_vain

sandbox = Sandbox.create()
start_counter(sandbox)
for turn in (1, 2, 3):
    count(sandbox, turn)
    sandbox.pause()
    assert sandbox.is_running() is False
    ask_in_vain(sandbox)
    paused = Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items()
    assert sandbox.sandbox_id in [each.sandbox_id for each in paused], paused
    assert sandbox.get_info().state == SandboxState.PAUSED
    same = Sandbox.connect(sandbox.sandbox_id, timeout=600)
    assert same.sandbox_id == sandbox.sandbox_id
count(sandbox, 4)
sandbox.pause()
assert sandbox.kill() is True
