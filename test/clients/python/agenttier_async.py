"""The asynchronous client of AgentTier, which stops and resumes a sandbox and clones it in both states."""

import asyncio
import os

from agenttier import AsyncAgentTierClient
from agenttier.exceptions import APIError, AuthenticationError, ConflictError
from agenttier.auth import APIKeyAuth, BearerTokenAuth

url = os.environ["AGENTTIER_API_URL"]


async def main():
    async with AsyncAgentTierClient(api_url=url, auth=BearerTokenAuth(os.environ["AGENTTIER_API_KEY"])) as client:
        sandbox = await client.create_sandbox(template="python", name="slept", timeout="8h")
        await sandbox.wait_until_running(poll_interval=0.2)
        await sandbox.exec("echo 1 > /root/state")
        await sandbox.stop()
        assert (await sandbox.status()).status == "Stopped"
        for call in (sandbox.exec("true"), sandbox.stop(), sandbox.files.list()):
            try:
                await call
                raise AssertionError("a stopped sandbox did something")
            except ConflictError:
                pass
        of_stopped = await sandbox.clone(name="of-stopped")
        await sandbox.resume()
        await asyncio.gather(
            sandbox.wait_until_running(poll_interval=0.2), of_stopped.wait_until_running(poll_interval=0.2)
        )
        one, two = await asyncio.gather(sandbox.clone(), sandbox.clone(name="two"))
        assert one.name.startswith("slept-clone-"), one
        for clone in (of_stopped, one, two):
            await clone.wait_until_running(poll_interval=0.2)
            assert (await clone.exec("cat /root/state")).stdout == "1\n"
        try:
            await sandbox.exec("sleep 1000", timeout=1)
            raise AssertionError("a command had no time limit")
        except APIError as error:
            assert error.status_code == 504, error
        await asyncio.gather(*(each.terminate() for each in (sandbox, of_stopped, one, two)))

    async with AsyncAgentTierClient(api_url=url, auth=APIKeyAuth("wrong")) as client:
        try:
            await client.list_sandboxes()
            raise AssertionError("a wrong key was accepted")
        except AuthenticationError:
            pass


asyncio.run(main())
