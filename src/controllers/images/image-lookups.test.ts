import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { RegistryTransport } from "../../registry/registry-transport.ts";
import { ImageLookups } from "./image-lookups.ts";

/** A stand-in for a registry that is down. The stand-in for the API server has no Secrets and no service accounts. */
let requests = 0;
const server = createServer((_, response) => {
  requests++;
  response.writeHead(503).end();
});

let host: string;
let lookups: ImageLookups;
let transport: RegistryTransport;
const clock = new ManualClock();
beforeEach(async () => {
  requests = 0;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  transport = new RegistryTransport({ insecureRegistries: [host] });
  const missing = { find: () => Promise.resolve(undefined) };
  const client = { resource: () => missing, secrets: missing } as unknown as KubeClient;
  lookups = new ImageLookups({ client, transport, clock, random: () => 1 });
});
afterEach(async () => {
  lookups.close();
  await transport.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function ask(namespace: string) {
  const request = {
    namespace,
    name: `${host}/app:1`,
    architecture: undefined,
    pullSecrets: [],
    serviceAccount: "default",
  };
  const ended = Promise.withResolvers<undefined>();
  const now = lookups.of(request, () => {
    ended.resolve(undefined);
  });
  return { now, ended: ended.promise };
}

it("shares one lookup between sandboxes of a namespace, and asks again for another namespace", async () => {
  const [first, second, other] = [ask("a"), ask("a"), ask("b")];
  expect([first.now, second.now, other.now]).toEqual(Array(3).fill({ state: "running" }));
  await Promise.all([first.ended, second.ended, other.ended]);
  expect(requests).toBe(2);
});

it("waits longer after each failure, and reports the last one while it asks again", async () => {
  await ask("a").ended;
  const failed = ask("a").now;
  expect(failed).toMatchObject({ state: "failed", error: { code: "Unavailable" }, retryInMilliseconds: 5_000 });
  expect(requests).toBe(1);
  clock.advance(5_000);
  const again = ask("a");
  expect(again.now).toMatchObject({ state: "failed", error: { code: "Unavailable" } });
  await again.ended;
  expect(requests).toBe(2);
  expect(ask("a").now).toMatchObject({ retryInMilliseconds: 10_000 });
});
