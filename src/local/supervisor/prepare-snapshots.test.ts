import { expect, it } from "vitest";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { KubeManifest } from "../../kube/object.ts";
import { ResourceClient } from "../../kube/resource-client.ts";
import type { ResourceRef } from "../../kube/resource-ref.ts";
import type { ApiRequest } from "../../kube/transport.ts";
import { type Preparation, preparationAnnotation } from "../../kube/volumes/preparation.ts";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import type { PartStatus } from "../cluster-status.ts";
import { prepareSnapshots } from "./prepare-snapshots.ts";

/** A supervisor whose acquisitions the test ends, and an API server that only has a CSIDriver. */
function scene() {
  const clock = new ManualClock();
  const stop = new AbortController();
  const states: PartStatus[] = [];
  const events: string[] = [];
  let annotations: Record<string, string> = {};
  const driver = () => ({
    apiVersion: "storage.k8s.io/v1",
    kind: "CSIDriver",
    metadata: { name: "d", uid: "u", resourceVersion: "1", annotations },
  });
  /** Delays the next patch. */
  const slow: { patch?: Promise<unknown> | undefined } = {};
  const request = async ({ verb, body }: ApiRequest): Promise<unknown> => {
    if (verb === "list") return { metadata: {}, items: [driver()] };
    const { patch } = slow;
    slow.patch = undefined;
    if (verb === "patch") await patch;
    if (verb === "patch")
      annotations = { ...(body as { metadata: { annotations: typeof annotations } }).metadata.annotations };
    else events.push((body as KubeManifest & { reason: string }).reason);
    return driver();
  };
  const caller = { namespace: "default", clock, random: () => 0, request };
  const client = {
    ...caller,
    resource: (ref: ResourceRef) => new ResourceClient(caller as unknown as KubeClient, ref, () => driver()),
  } as unknown as KubeClient;
  const running: { name: string; lowPriority: boolean | undefined; end: PromiseWithResolvers<undefined> }[] = [];
  const acquire = async (
    _pinned: unknown,
    options: {
      names: readonly string[];
      lowPriority?: boolean;
      signal?: AbortSignal;
      progress?: (line: string) => void;
    },
  ) => {
    const end = Promise.withResolvers<undefined>();
    options.signal?.addEventListener("abort", () => {
      end.reject(new Error("aborted"));
    });
    options.progress?.("building with Go");
    running.push({ name: options.names.join(), lowPriority: options.lowPriority, end });
    await end.promise;
    return {};
  };
  const onChange = (status: PartStatus): void => void states.push(status);
  const ended = prepareSnapshots(client, { clock, onChange, acquire: acquire as never }, stop.signal);
  const preparation = () => JSON.parse(annotations[preparationAnnotation] ?? "null") as Preparation | null;
  return { clock, stop, slow, states, events, running, ended, preparation };
}

it("reports nothing about programs that are there", async () => {
  const { running, ended, states, preparation } = scene();
  for (const count of [1, 2]) {
    await expect.poll(() => running).toHaveLength(count);
    running.at(-1)!.end.resolve(undefined);
  }
  await ended;
  expect(states).toEqual([]);
  expect(preparation()).toBeNull();
});

it("builds one program after another with low priority, and reports it", async () => {
  const { clock, running, ended, states, events, preparation } = scene();
  await expect.poll(() => running).toHaveLength(1);
  const since = clock.now().toISOString();
  clock.advance(1_000);
  await expect.poll(preparation).toEqual({ since });
  expect(states.at(-1)).toMatchObject({
    name: "snapshot-controller",
    state: "preparing",
    since,
    message: "building with Go",
  });
  running[0]!.end.resolve(undefined);
  await expect.poll(() => running).toHaveLength(2);
  running[1]!.end.resolve(undefined);
  clock.advance(60_000);
  await ended;
  expect(running).toMatchObject([
    { name: "snapshot-controller", lowPriority: true },
    { name: "csi-snapshotter", lowPriority: true },
  ]);
  expect(states.at(-1)).toMatchObject({ name: "csi-snapshotter", state: "waiting" });
  expect(preparation()).toEqual({ since, until: clock.now().toISOString() });
  expect(events).toEqual(["PreparingSnapshots", "SnapshotsPrepared"]);
});

it("reports the end after the start, however long that report takes", async () => {
  const { clock, running, ended, events, preparation, slow } = scene();
  await expect.poll(() => running).toHaveLength(1);
  const patch = Promise.withResolvers<undefined>();
  slow.patch = patch.promise;
  clock.advance(1_000);
  running[0]!.end.resolve(undefined);
  await expect.poll(() => running).toHaveLength(2);
  running[1]!.end.resolve(undefined);
  setTimeout(() => {
    patch.resolve(undefined);
  }, 50);
  await ended;
  expect(preparation()).toHaveProperty("until");
  expect(events).toEqual(["PreparingSnapshots", "SnapshotsPrepared"]);
});

it("reports why it failed, and tries again", async () => {
  const { clock, running, states, stop, ended, preparation } = scene();
  await expect.poll(() => running).toHaveLength(1);
  running[0]!.end.reject(new RametError("ToolMissing", "Go is not installed", { hint: "Install Go" }));
  await expect.poll(preparation).toMatchObject({ failure: "Go is not installed" });
  expect(states.at(-1)).toMatchObject({ state: "preparing", message: expect.stringContaining("Install Go") as string });
  await expect.poll(() => clock.waits.some((milliseconds) => milliseconds > 2_000)).toBe(true);
  clock.advance(10_000);
  await expect.poll(() => running).toHaveLength(2);
  const { failingSince } = preparation() ?? {};
  running[1]!.end.reject(new RametError("ToolMissing", "Go is broken"));
  await expect.poll(preparation).toMatchObject({ failure: "Go is broken", failingSince });
  expect(failingSince).toBeDefined();
  stop.abort();
  await ended;
  expect(preparation()).not.toHaveProperty("until");
});
