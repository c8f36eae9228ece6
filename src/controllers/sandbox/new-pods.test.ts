import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { Pod } from "../../api/schema/pod.ts";
import { ObjectStore } from "../../kube/store.ts";
import { NewPods } from "./new-pods.ts";

const pod = (uid: string, resourceVersion = "1"): Pod =>
  Pod.parse({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a", namespace: "n", uid, resourceVersion, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { containers: [{ name: "main", image: "python" }] },
  });

function open() {
  const clock = new ManualClock();
  const store = new ObjectStore<Pod>((error) => {
    throw error;
  });
  const lost: string[] = [];
  const newPods = new NewPods({ pods: { store }, clock, onLost: (key) => lost.push(key) });
  return { clock, store, lost, newPods };
}

describe("NewPods", () => {
  it("knows a Pod until the informer shows it", () => {
    const { clock, store, lost, newPods } = open();
    newPods.add("sandbox", pod("p"), 0);
    expect(newPods.get("sandbox")?.metadata.uid).toBe("p");
    store.put(pod("p", "2"));
    expect(newPods.get("sandbox")).toBeUndefined();
    clock.advance(60_000);
    expect(newPods.ageMilliseconds("p")).toBe(60_000);
    store.remove(pod("p", "3"), true);
    expect(newPods.ageMilliseconds("p")).toBeUndefined();
    expect([lost, clock.waits]).toEqual([[], []]);
  });

  it("keeps no Pod that the informer showed before the API server responded", () => {
    const { clock, store, newPods } = open();
    store.put(pod("p"));
    newPods.add("sandbox", pod("p"), 0);
    expect(newPods.get("sandbox")).toBeUndefined();
    expect([clock.waits, newPods.ageMilliseconds("p")]).toEqual([[], 0]);
  });

  it("reports a Pod that the informer never shows, so that its sandbox gets another one", () => {
    const { clock, lost, newPods } = open();
    newPods.add("sandbox", pod("p"), 0);
    clock.advance(10_000);
    expect([newPods.get("sandbox"), lost]).toEqual([undefined, ["n/a"]]);
    newPods.add("sandbox", pod("q"), 10_000);
    newPods.close();
    expect([newPods.get("sandbox"), clock.waits]).toEqual([undefined, []]);
  });
});
