import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { RametError } from "../../src/base/errors.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { type ClientApiWorld, openWithKey } from "./client-api-world.ts";

let world: ClientApiWorld;
let key: string;
const namespace = "team-a";

beforeAll(async () => {
  ({ world, key } = await openWithKey(namespace));
});
afterAll(() => world.close());

/** Changes fields outside of the spec of a sandbox, as reports of its state do. */
async function keepWriting(name: string, signal: AbortSignal): Promise<void> {
  const sandboxes = world.cluster.client.resource(refOf(sandboxKind));
  for (let number = 0; !signal.aborted; number++) {
    await sandboxes.mergePatch({ namespace, name }, { metadata: { annotations: { "example.com/note": `${number}` } } });
    await delay(30, undefined, { signal }).catch(() => undefined);
  }
}

it("runs a sandbox whose pause has failed with its time as before, also while its object is written", async () => {
  const created = await world.call(key, "POST", "/sandboxes", { templateID: "base", timeout: 3600 });
  const { sandboxID } = created.json as { sandboxID: string };
  const get = async () => (await world.call(key, "GET", `/sandboxes/${sandboxID}`)).json as Record<string, unknown>;
  const { name, endAt } = await get();
  const over = new AbortController();
  const writing = keepWriting(String(name), over.signal);
  try {
    for (let round = 0; round < 8; round++) {
      world.node.cells.get(`${namespace}/${String(name)}`)!.behaviour.captureError = new RametError(
        "StoreFull",
        "no room",
      );
      const { text } = await world.call(key, "POST", `/sandboxes/${sandboxID}/pause`, {});
      expect(text).toContain("was not paused");
      expect(await get()).toMatchObject({ state: "running", endAt });
    }
  } finally {
    over.abort();
    await writing;
  }
});

it("pauses a sandbox whose guest does not answer, unless the client requires that", async () => {
  const { json } = await world.call(key, "POST", "/sandboxes", { templateID: "base", timeout: 3600 });
  const { sandboxID } = json as { sandboxID: string };
  const pause = (body: object) => world.call(key, "POST", `/sandboxes/${sandboxID}/pause`, body);
  const get = async () => (await world.call(key, "GET", `/sandboxes/${sandboxID}`)).json;
  // No gateway leads to the guests of this cluster.
  expect(await pause({ requireHealthyGuest: true })).toMatchObject({ status: 503, json: { code: 503 } });
  expect(await get()).toMatchObject({ state: "running" });
  expect(await pause({})).toMatchObject({ status: 204 });
  expect(await get()).toMatchObject({ state: "paused", pauseMode: "full" });
  expect(await pause({ requireHealthyGuest: true })).toMatchObject({ status: 409 });
});
