"""The asynchronous SDK builds templates, also in the background."""

import asyncio

from e2b import AsyncSandbox, AsyncTemplate

import ended


async def main():
    template = AsyncTemplate().from_image("python").run_cmd("echo built >/built")
    messages = []
    await AsyncTemplate.build(template, "async-built:v1", on_build_logs=lambda entry: messages.append(entry.message))
    assert any("echo built" in message for message in messages), messages
    assert await AsyncTemplate.exists("async-built")
    await AsyncTemplate.assign_tags("async-built:v1", ["stable"])
    assert {"v1", "stable"} <= {tag.tag for tag in await AsyncTemplate.get_tags("async-built")}

    started = await AsyncTemplate.build_in_background(template, "async-background")
    while True:
        status = await AsyncTemplate.get_build_status(started)
        if status.status.value not in ("building", "waiting"):
            break
        await asyncio.sleep(0.1)
    assert status.status.value == "ready", status
    sandboxes = await asyncio.gather(*(AsyncSandbox.create(name) for name in ("async-built:stable", "async-background")))
    for sandbox in sandboxes:
        assert await sandbox.files.read("/built") == "built\n"
        await sandbox.kill()


ended.run(main())
