"""A sandbox is created, found, runs commands, is cloned and deleted."""

import os
import time

from agenttier import AgentTierClient
from agenttier.exceptions import ConflictError, NotFoundError

with AgentTierClient(api_url=os.environ["AGENTTIER_API_URL"]) as client:
    source = client.create_sandbox(template="python", name="source")
    assert (source.id, source.name) == ("source", "source"), source
    running = source.wait_until_running()
    assert (running.status, running.template_ref, running.pod_name) == ("Running", "python", "source"), running

    result = source.exec("echo kept > /root/kept; echo bad >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("", "bad\n", 3), result
    source.exec("sleep 1000 >/dev/null 2>&1 &")

    clone = client.get_sandbox("source").clone(name="clone")
    assert (clone.id, clone.namespace) == ("clone", source.namespace), clone
    clone.wait_until_running(timeout=60, poll_interval=0.2)
    assert clone.exec("cat /root/kept").stdout == "kept\n"
    assert clone.exec("pgrep -f 'sleep 1000' || cat /proc/[0-9]*/cmdline").exit_code == 0
    assert clone.exec("hostname").stdout == "clone\n"
    try:
        source.clone(name="clone")
        raise AssertionError("a taken name was accepted")
    except ConflictError as error:
        assert "clone" in str(error), error

    names = [each.name for each in client.list_sandboxes(status="Running")]
    assert sorted(names) == ["clone", "source"], names
    for each in (source, clone):
        each.terminate()
    # The time limit of the whole program ends a wait without success.
    while True:
        try:
            status = source.status().status
            assert status == "Deleting", status
            time.sleep(0.1)
        except NotFoundError:
            break
