"""Secrets of a client, and rules that add them to requests of a sandbox: `create DOMAIN`, or `update ID DOMAIN`."""

import sys

from e2b import Sandbox, Secret, SecretNotFoundException


def rules_for(domain, value):
    return {domain: [{"transform": {"headers": {"X-Key": value}}}]}


command, *arguments = sys.argv[1:]
if command == "create":
    (domain,) = arguments
    made = Secret.create("python-key", "pyth0n-1", metadata={"team": "a"})
    assert (made.name, made.version, made.metadata) == ("python-key", 1, {"team": "a"}), made
    assert Secret.get_info(made.secret_id) == made
    assert Secret.update("python-key", "pyth0n-2").version == 2
    assert Secret.exists("python-key") and not Secret.exists("python-none")
    Secret.create("python-second", "pyth0n-3")
    listed = Secret.list(limit=1)
    names = []
    while listed.has_next:
        names += [secret.name for secret in listed.next_items()]
    assert {"python-key", "python-second"} <= set(names), names
    assert Secret.destroy("python-second") is True and Secret.destroy("python-second") is False
    try:
        Secret.get_info("python-second")
        raise AssertionError("a deleted secret was found")
    except SecretNotFoundException:
        pass
    host = domain.split(":")[0]
    network = {
        "deny_out": ["0.0.0.0/0"],
        "allow_out": [host],
        "rules": rules_for(domain, f"l1t3ral {Secret.fill('python-key')}"),
    }
    sandbox = Sandbox.create("python", network=network)
    info = sandbox.get_info().network
    assert info["allow_out"] == [host] and list(info["rules"]) == [domain], info
    print(sandbox.sandbox_id, end="")
else:
    sandbox_id, domain = arguments
    Sandbox.update_network(sandbox_id, {"rules": rules_for(domain, "ch4nged")})
    print(sandbox_id, end="")
