"""Contexts, REPLs, files, lists and times of a sandbox."""

import itertools
import os

from sandbox0 import APIError, Client
from sandbox0.apispec.models.network_egress_policy import NetworkEgressPolicy
from sandbox0.apispec.models.quota_dimension import QuotaDimension
from sandbox0.apispec.models.sandbox_app_service import SandboxAppService
from sandbox0.apispec.models.sandbox_app_service_ingress import SandboxAppServiceIngress
from sandbox0.apispec.models.sandbox_config import SandboxConfig
from sandbox0.apispec.models.sandbox_network_policy import SandboxNetworkPolicy
from sandbox0.apispec.models.sandbox_network_policy_mode import SandboxNetworkPolicyMode
from sandbox0.apispec.models.sandbox_refresh_request import SandboxRefreshRequest
from sandbox0.apispec.models.template_from_sandbox_create_request import TemplateFromSandboxCreateRequest
from sandbox0.client_templates import CreateTemplateFromSandboxOptions
from sandbox0.sandbox import CmdOptions
from sandbox0.sandbox_observability import (
    SandboxObservabilityEventOptions,
    SandboxObservabilityEventWatchOptions,
)

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

    # A context over a WebSocket gets input and signals, and reports its end.
    stream = sandbox.cmd_stream("x", CmdOptions(command=["sh", "-c", "read line; echo got $line; echo ü >&2; exit 5"]))
    stream.send_input("text\n")
    printed = {"stdout": "", "stderr": ""}
    for each in stream.iter_outputs():
        printed[each.source] += each.data
    assert printed == {"stdout": "got text\n", "stderr": "ü\n"}, printed
    assert stream.wait().exit_code == 5
    killed = sandbox.cmd_stream("sleep 1000", CmdOptions())
    killed.send_signal("TERM")
    assert killed.wait().exit_code == 143
    # A REPL over a WebSocket, which a restart makes forget its state.
    repl = sandbox.connect_ws_context(sandbox._repl_context_by_lang["python"])
    repl.send_input("x + 1", "one")
    text, outputs = "", repl.iter_outputs()
    while not text.endswith("\n"):
        text += next(outputs).data
    assert text == "42\n", text
    repl.close()
    assert sandbox.restart_context(repl.context_id).running
    assert "NameError" in sandbox.run("python", "x").output_raw
    restarted = sandbox.restart_context(sandbox.cmd("sleep 1000", CmdOptions(wait=False, cwd="/var")).context_id)
    assert sandbox.get_context(restarted.id).running
    assert sandbox.delete_context(restarted.id).data.deleted

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

    # Changes of a directory, also of one that is created later.
    watch = sandbox.watch_files("/work", recursive=True)
    sandbox.write_file("/work/new/file", b"1")
    events = watch.iter_events()
    # The service also sets the mode of what it creates.
    seen = list(itertools.islice((each for each in events if each.event != "chmod"), 2))
    assert all((each.type, each.watch_id) == ("event", watch.watch_id) for each in seen), seen
    assert [(each.event, each.path) for each in seen] == [("create", "/work/new"), ("create", "/work/new/file")], seen
    watch.unsubscribe()
    try:
        sandbox.watch_files("/missing")
        raise AssertionError("a missing directory is watched")
    except APIError as error:
        assert "/missing" in error.message, error

    # The network: what was requested, and a typed refusal of the rest.
    assert sandbox.get_network_policy().mode.value == "allow-all"
    egress = NetworkEgressPolicy(allowed_domains=["a.example.com"])
    policy = SandboxNetworkPolicy(mode=SandboxNetworkPolicyMode.BLOCK_ALL, egress=egress)
    assert sandbox.update_network_policy(policy).mode.value == "block-all"
    rules = sandbox.get_network_policy().egress.traffic_rules
    assert [(each.action.value, each.domains) for each in rules] == [("allow", ["a.example.com"])], rules
    proxied = SandboxNetworkPolicy.from_dict({"mode": "block-all", "egress": {"proxy": {"type": "socks5", "address": "a:1"}}})
    try:
        sandbox.update_network_policy(proxied)
        raise AssertionError("a proxy was accepted")
    except APIError as error:
        assert error.status_code == 501, error

    # Services, metrics, logs and limits.
    service = SandboxAppService(id="web", port=8000, ingress=SandboxAppServiceIngress(public=True))
    updated = sandbox.update_services([service])
    assert [(each.id, each.port, each.publishable) for each in updated.services] == [("web", 8000, True)], updated
    assert [each.id for each in sandbox.get_services().services] == ["web"]
    assert sandbox.clear_services().services == []
    metrics = {each.metric.value: each.segments[0].points[0].value for each in sandbox.list_metrics().series}
    assert metrics["sandbox.memory.limit"] > metrics["sandbox.memory.usage"] > 0, metrics
    assert sorted(metrics) == sorted(each.name.value for each in sandbox.get_metrics_catalog().metrics)
    assert sandbox.list_logs().logs == []
    quotas = {each.dimension.value: each for each in client.list_team_quotas()}
    assert quotas["active_sandboxes"].current >= 1, quotas
    assert all(client.get_team_quota(QuotaDimension(each)).dimension.value == each for each in quotas), quotas
    assert client.get_team_quota(QuotaDimension.SANDBOX_CLAIMS).unlimited

    # Events and usage, which follow from the objects. A watch gets what happens later.
    events = sandbox.list_observability_events().events
    assert [each.action for each in events][0] == "sandbox.create", events
    assert {each.event_type.value for each in events} == {"lifecycle"}, events
    with sandbox.watch_observability_events(SandboxObservabilityEventWatchOptions(action="sandbox.rootfs_snapshot.create")) as following:
        snapshot = client.sandboxes.create_rootfs_snapshot(sandbox.id)
        captured = itertools.islice((line.data for line in following.iter_lines() if line.type_.value == "event"), 2)
        assert [each.outcome.value for each in captured] == ["accepted", "succeeded"]
    events = sandbox.list_observability_events(SandboxObservabilityEventOptions(resource_type="sandbox_rootfs_snapshot")).events
    assert events[-1].resource.id == snapshot.id and events[0].operation_id == events[1].operation_id, events
    assert events[0].actor.kind.value == "api_key", events
    windows = {each.window_id: each for each in client.list_usage_windows(limit=1000).windows}
    team = client.list_usage_windows(window_type="store.bytes").windows[0]
    assert team.value >= windows[f"store.unique_bytes/checkpoint/{snapshot.id}"].value > 0, windows
    first = client.list_usage_windows(limit=1)
    second = client.list_usage_windows(limit=1, cursor=first.next_cursor)
    assert first.next_cursor == first.windows[0].window_id < second.windows[0].window_id, (first, second)
    try:
        client.list_usage_windows(window_type="sandbox.egress_bytes")
        raise AssertionError("a usage that is not recorded was listed")
    except APIError as error:
        assert error.status_code == 501, error
    client.sandboxes.delete_rootfs_snapshot(snapshot.id)

    # Times, lists and templates.
    first = client.sandboxes.get(sandbox.id)
    later = client.sandboxes.refresh(sandbox.id, SandboxRefreshRequest(duration=900))
    assert later.expires_at > first.expires_at and later.hard_expires_at > first.hard_expires_at, later
    assert sandbox.id in [each.id for each in client.sandboxes.list(template_id="default", paused=False)]
    assert client.sandboxes.list(status="paused", template_id="default", offset=1000) == []
    assert client.sandboxes.status(sandbox.id).status.value == "running"
    assert "python" in [each.template_id for each in client.list_templates()]
    assert client.get_template("python").spec.main_container.image == "python"

    # A template from the sandbox: repeated with its key it exists once, and sandboxes have the files.
    name = f"from-{sandbox.id[:8]}"
    request = TemplateFromSandboxCreateRequest(template_id=name, sandbox_id=sandbox.id)
    once = CreateTemplateFromSandboxOptions(idempotency_key=name, wait=True)
    created = [client.create_template_from_sandbox(request, once) for _ in range(2)]
    assert [(each.template_id, each.status.creation.state.value) for each in created] == [(name, "ready")] * 2, created
    assert name in [each.template_id for each in client.list_templates()]
    try:
        client.create_template_from_sandbox(request)
        raise AssertionError("the template was created twice")
    except APIError as error:
        assert error.status_code == 409, error
    with client.sandboxes.open(name) as copy:
        assert copy.read_file("/work/new/file") == b"1"
    client.delete_template(name)
    gone = sandbox.id
try:
    while True:
        client.sandboxes.get(gone)
except APIError as error:
    assert error.status_code == 404, error
