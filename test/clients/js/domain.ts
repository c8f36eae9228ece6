/** The SDK for JavaScript with E2B_DOMAIN only. */
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { Sandbox } from "e2b";

const sandbox = await Sandbox.create();
assert.equal((await sandbox.commands.run("echo hello")).stdout, "hello\n");
await sandbox.files.write("/srv/page", "a page");
const same = await Sandbox.connect(sandbox.sandboxId);
assert.equal(await same.files.read("/srv/page"), "a page");

// A program in the sandbox.
await sandbox.commands.run("cd /srv && exec python3 -m http.server 8000", { background: true });
const page = `https://${sandbox.getHost(8000)}/page`;
assert.equal(await (await untilServed(page)).text(), "a page");

// Signed URLs of files.
const download = await sandbox.downloadUrl("/srv/page", { useSignatureExpiration: 60_000 });
assert.equal(await (await fetch(download)).text(), "a page");
const form = new FormData();
form.append("file", new Blob(["sent by a URL"]), "sent");
const upload = await sandbox.uploadUrl("/srv/sent", { useSignatureExpiration: 60_000 });
assert.equal((await fetch(upload, { method: "POST", body: form })).status, 200);
assert.equal(await sandbox.files.read("/srv/sent"), "sent by a URL");
assert.equal((await fetch(upload.replace("sent", "page"), { method: "POST", body: form })).status, 401);

// A sandbox without public ports.
const closed = await Sandbox.create("base", { network: { allowPublicTraffic: false } });
await closed.files.write("/srv/page", "another page");
await closed.commands.run("cd /srv && exec python3 -m http.server 8000", { background: true });
const closedPage = `https://${closed.getHost(8000)}/page`;
const token = { "e2b-traffic-access-token": closed.trafficAccessToken ?? "" };
assert.equal(await (await untilServed(closedPage, token)).text(), "another page");
for (const headers of [{}, { "e2b-traffic-access-token": sandbox.trafficAccessToken ?? "x" }]) {
  assert.equal((await fetch(closedPage, { headers })).status, 403);
}

await sandbox.pause();
await sandbox.connect();
assert.equal(await (await untilServed(page)).text(), "a page");
await Promise.all([sandbox.kill(), closed.kill()]);
assert.equal(await sandbox.isRunning(), false);

/** The gateway answers 502 while nothing listens on the port. */
async function untilServed(url: string, headers: Record<string, string> = {}): Promise<Response> {
  for (;;) {
    const response = await fetch(url, { headers });
    if (response.status !== 502) return response;
    await response.arrayBuffer();
    await pause(50);
  }
}
