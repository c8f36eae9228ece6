import { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ClientWorld } from "./client-world.ts";
import { askSecurely, protocols } from "./secure-request.ts";

/** A sandbox without public ports, and the API, at one address with TLS. */
let world: ClientWorld;
let options: Awaited<ReturnType<ClientWorld["connection"]>>;
let sandbox: Sandbox;
let other: Sandbox;

beforeAll(async () => {
  world = await ClientWorld.shared("routing");
  options = await world.connection();
  sandbox = await Sandbox.create("base", { ...options, network: { allowPublicTraffic: false } });
  other = await Sandbox.create("base", { ...options, network: { allowPublicTraffic: false } });
  await sandbox.files.write("/srv/page", "a page");
  await sandbox.commands.run("cd /srv && exec python3 -m http.server 8000", { background: true });
  await sandbox.commands.run(
    "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))'; do sleep 0.05; done",
  );
});
afterAll(() => world.close());

const traffic = (of: Sandbox) => ({ "e2b-traffic-access-token": of.trafficAccessToken ?? "" });

describe.each(protocols)("over TLS and %s", (protocol) => {
  it.each(["the host", "headers", "the path"])("a port is named by %s, and needs the traffic token", async (by) => {
    const naming = {
      "the host": { host: `8000-${sandbox.sandboxId}`, path: "/page", headers: {} },
      headers: { path: "/page", headers: { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "8000" } },
      "the path": { path: `/kruise/${sandbox.sandboxId}/8000/page`, headers: {} },
    }[by] ?? { headers: {} };
    const ask = (more: Record<string, string>) =>
      askSecurely(world.cluster, { protocol, ...naming, headers: { ...naming.headers, ...more } });
    expect(await ask(traffic(sandbox))).toEqual({ status: 200, text: "a page" });
    for (const wrong of [{}, traffic(other), { "e2b-traffic-access-token": "x" }]) {
      expect((await ask(wrong)).status).toBe(403);
    }
  });

  it("the files of a sandbox need its access token, also with the traffic token", async () => {
    const host = `49983-${sandbox.sandboxId}`;
    const path = "/files?path=/srv/page";
    const status = async (headers: Record<string, string>) =>
      (await askSecurely(world.cluster, { protocol, host, path, headers })).status;
    expect(await status({})).toBe(401);
    expect(await status(traffic(sandbox))).toBe(401);
    expect(await status({ "x-access-token": traffic(sandbox)["e2b-traffic-access-token"] })).toBe(401);
  });

  it("the name api is the API, also for calls that name a sandbox in headers", async () => {
    const ask = (headers: Record<string, string>, path = `/sandboxes/${sandbox.sandboxId}`) =>
      askSecurely(world.cluster, { protocol, host: "api", path, headers });
    const { status, text } = await ask({ "x-api-key": options.apiKey });
    expect([status, JSON.parse(text)]).toEqual([200, expect.objectContaining({ sandboxID: sandbox.sandboxId })]);
    const named = { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "49983" };
    expect((await ask({ "x-api-key": options.apiKey, ...named })).status).toBe(200);
    expect((await ask({})).status).toBe(401);
    expect((await ask({ "x-api-key": options.apiKey }, "/sandboxes/unknown")).status).toBe(404);
  });

  it("an unknown sandbox and a port without a program answer 502", async () => {
    const status = async (host: string) =>
      (await askSecurely(world.cluster, { protocol, host, headers: traffic(sandbox) })).status;
    expect(await status("8000-11111111-2222-4333-8444-555555555555")).toBe(502);
    expect(await status(`8001-${sandbox.sandboxId}`)).toBe(502);
  });
});
