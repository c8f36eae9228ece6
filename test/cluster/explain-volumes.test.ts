import { afterAll, beforeAll, expect, it } from "vitest";
import { error, VolumeScene } from "./volume-scene.ts";
import { VolumeWorld } from "./volume-world.ts";

let world: VolumeWorld;
beforeAll(async () => {
  world = await VolumeWorld.start();
});
afterAll(() => world.stop());

/** A complaint of users, as reference pages and issues of external-snapshotter and of drivers describe it. */
interface Complaint {
  complaint: string;
  /** Plays what the controllers write. @returns what `ramet explain` explains */
  play: (scene: VolumeScene) => Promise<string>;
  /** By how many seconds later the user asks. */
  later?: number;
  /** The fields of the explanation. */
  found: object;
}

const containing = (text: string) => expect.stringContaining(text) as string;

const complaints: readonly Complaint[] = [
  {
    complaint: "the claim is not bound",
    play: async (scene) => {
      await scene.claim("data");
      const snapshot = await scene.snapshot("a");
      const why = "the PVC data is not yet bound to a PV, will not attempt to take a snapshot";
      const message = `Failed to create snapshot content with error ${why}`;
      await scene.world.event(snapshot, { reason: "SnapshotContentCreationFailed", message });
      await scene.report(snapshot, error(message));
      return "vs/a";
    },
    found: {
      phase: "BlockedBySource",
      reason: "SourceNotBound",
      state: "stuck",
      cause: containing("The PersistentVolumeClaim data is not bound"),
      action: containing("ramet explain pvc/data"),
      foundIn: "pvc/data",
      retry: containing("pauses of at most 5 minutes"),
      lastEvent: { reason: "SnapshotContentCreationFailed", message: containing("not yet bound") },
    },
  },
];

it.each(complaints)("explains: $complaint", async ({ play, later = 0, found }) => {
  const namespace = await world.namespace();
  const scene = new VolumeScene(world, namespace);
  const object = await play(scene);
  const { exitCode, stdout, stderr } = await world.ramet(["explain", object, "-n", namespace, "-o", "json"], { later });
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toMatchObject(found);
  expect(JSON.parse(stdout)).toMatchObject({ unknown: [] });
  expect(exitCode).toBe(0);
});
