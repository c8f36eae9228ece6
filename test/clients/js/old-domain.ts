/** An early SDK for JavaScript, which reaches sandboxes by their host names only. */
import assert from "node:assert/strict";
import { Sandbox } from "e2b-2-6";

const sandbox = await Sandbox.create();
assert.equal((await sandbox.commands.run("echo hello")).stdout, "hello\n");
await sandbox.files.write("/srv/page", "a page");
assert.equal(await sandbox.betaPause(), true);
const same = await Sandbox.connect(sandbox.sandboxId);
assert.equal(await same.files.read("/srv/page"), "a page");
await same.commands.run("cd /srv && exec python3 -m http.server 8000", { background: true });
const url = `https://${same.getHost(8000)}/page`;
let response = await fetch(url);
// The gateway answers 502 while nothing listens on the port.
while (response.status === 502) response = await fetch(url);
assert.equal(await response.text(), "a page");
await same.kill();
