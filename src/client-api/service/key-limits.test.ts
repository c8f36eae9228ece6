import type { FastifyRequest } from "fastify";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { limitsOfKey } from "../../api/keys/api-key-rules.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { annotations } from "../../api/names/labels.ts";
import { requestIdOf } from "../routes/route.ts";
import { checkSnapshotLimit, takeSnapshot } from "./key-limits.ts";
import type { BegunCapture } from "./parts.ts";

const mebibyte = 1024 ** 2;

function checkpoint(name: string, owner: string, sizeBytes?: number): Checkpoint {
  return Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: {
      name,
      namespace: "t",
      uid: name,
      resourceVersion: "1",
      creationTimestamp: "2030-01-01T00:00:00Z",
      annotations: { [annotations.owner]: owner },
    },
    spec: { sandboxName: "a" },
    ...(sizeBytes !== undefined && { status: { phase: "Succeeded", checkpointId: name, ramet: { sizeBytes } } }),
  });
}

function open(checkpoints: Checkpoint[], snapshotBytes: string) {
  const clock = new ManualClock();
  const known = { snapshotsIn: () => [], sandboxesIn: () => [], checkpointsIn: () => checkpoints };
  const parts = { clock, known, capturing: new Set<BegunCapture>() } as unknown as Parameters<typeof takeSnapshot>[0];
  return { clock, parts, caller: { key: "t/ci", namespace: "t", limits: limitsOfKey({ limits: { snapshotBytes } }) } };
}

it("counts captures that wait as the key's largest snapshot", () => {
  const own = [checkpoint("a", "t/ci", 100 * mebibyte), checkpoint("b", "t/ci", 50 * mebibyte)];
  const waiting = [checkpoint("c", "t/ci"), checkpoint("d", "t/ci"), checkpoint("e", "t/other")];
  const { parts, caller } = open([...own, ...waiting], "351Mi");
  takeSnapshot(parts, caller);
  expect(() => {
    takeSnapshot(parts, caller);
  }).toThrow(/157286400 bytes, 3 more are being captured, and may have 368050176/);
});

it("counts captures at the same time, before the cluster shows them", () => {
  const { clock, parts, caller } = open([], "2Gi");
  takeSnapshot(parts, caller);
  takeSnapshot(parts, caller);
  expect(() => {
    takeSnapshot(parts, caller);
  }).toThrow(/have 0 bytes, 2 more are being captured/);
  takeSnapshot(parts, { ...caller, key: "t/other" });
  clock.advance(1_000);
  checkSnapshotLimit(parts, caller);
});

it("counts a capture once when the cluster shows it, also soon after the request", () => {
  const shown = [checkpoint("earlier", "t/ci", 1024 * mebibyte)];
  const { parts, caller } = open(shown, "4Gi");
  takeSnapshot(parts, caller);
  shown.push(checkpoint("first", "t/ci"), checkpoint("stranger", "t/other"));
  takeSnapshot(parts, caller);
  shown[1] = checkpoint("first", "t/ci", 1024 * mebibyte);
  expect(() => {
    checkSnapshotLimit(parts, caller);
  }).not.toThrow();
  shown.push(checkpoint("second", "t/ci"));
  takeSnapshot(parts, caller);
  expect(() => {
    takeSnapshot(parts, caller);
  }).toThrow(/have 2147483648 bytes, 2 more are being captured/);
});

describe("a repeated request", () => {
  const requestOf = (key: string, body: object) => {
    const request = { headers: { "idempotency-key": key }, method: "POST", url: "/a", body };
    return requestIdOf("t/ci", request as unknown as FastifyRequest)!;
  };
  const first = requestOf("k", { name: "a" });
  const earlier = checkpoint("a", "t/ci", 100 * mebibyte);
  earlier.metadata.annotations![annotations.lock] = first;

  it("is not refused by the limit that its first attempt has reached", () => {
    const { parts, caller } = open([earlier], "100Mi");
    takeSnapshot(parts, caller, first);
    for (const requestId of [requestOf("other", { name: "a" }), undefined])
      expect(() => {
        takeSnapshot(parts, caller, requestId);
      }).toThrow(/may have 104857600/);
  });

  it("is refused with another body, but not with that of another API key", () => {
    const { parts, caller } = open([earlier], "1Gi");
    const other = requestOf("k", { name: "b" });
    expect(() => {
      takeSnapshot(parts, caller, other);
    }).toThrow(expect.objectContaining({ code: "Conflict" }) as Error);
    takeSnapshot(parts, { ...caller, key: "t/other" }, other);
  });
});
