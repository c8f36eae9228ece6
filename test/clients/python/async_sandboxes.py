"""The asynchronous SDK uses several sandboxes concurrently."""

import asyncio

from e2b import AsyncSandbox

import ended


async def use(number):
    sandbox = await AsyncSandbox.create()
    await sandbox.files.write("/tmp/number", str(number))
    result = await sandbox.commands.run("cat /tmp/number; sleep 1; echo end")
    assert result.stdout == f"{number}end\n", result
    await sandbox.pause()
    await sandbox.connect()
    assert await sandbox.files.read("/tmp/number") == str(number)
    snapshot = await sandbox.create_snapshot()
    clone = await AsyncSandbox.create(snapshot.snapshot_id)
    assert await clone.files.read("/tmp/number") == str(number)
    assert await AsyncSandbox.delete_snapshot(snapshot.snapshot_id)
    assert await clone.kill() and await sandbox.kill()


async def main():
    await asyncio.gather(*(use(number) for number in range(3)))


ended.run(main())
