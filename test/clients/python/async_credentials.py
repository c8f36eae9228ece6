"""The same as `credentials.py`, with the asynchronous SDK."""

import sys

from e2b import AsyncSandbox, AsyncSecret

import ended


def rules_for(domain, value):
    return {domain: [{"transform": {"headers": {"X-Key": value}}}]}


async def create(domain):
    await AsyncSecret.create("async-key", "pyth0n-1")
    assert (await AsyncSecret.update("async-key", "pyth0n-2")).version == 2
    listed = AsyncSecret.list()
    assert "async-key" in [secret.name for secret in await listed.next_items()]
    host = domain.split(":")[0]
    network = {
        "deny_out": ["0.0.0.0/0"],
        "allow_out": [host],
        "rules": rules_for(domain, f"l1t3ral {AsyncSecret.fill('async-key')}"),
    }
    sandbox = await AsyncSandbox.create("python", network=network)
    print(sandbox.sandbox_id, end="")


async def update(sandbox_id, domain):
    await AsyncSandbox.update_network(sandbox_id, {"rules": rules_for(domain, "ch4nged")})
    print(sandbox_id, end="")


command, *arguments = sys.argv[1:]
ended.run({"create": create, "update": update}[command](*arguments))
