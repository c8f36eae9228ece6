import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ClusterFacts, ClusterNode } from "./cluster-facts.ts";
import { findingsOf } from "./preflight.ts";
import { isAtLeast } from "./finding.ts";

const now = new Date("2030-01-01T00:00:00Z");
const metadata = { name: "n", uid: "u", resourceVersion: "1", creationTimestamp: now.toISOString() };

function node(
  name: string,
  { info = {}, userNamespaces = true, labels = {}, ready = "True", unschedulable = false } = {},
) {
  return ClusterNode.parse({
    metadata: { ...metadata, name, labels },
    spec: { unschedulable },
    status: {
      conditions: [{ type: "Ready", status: ready, message: "m" }],
      nodeInfo: {
        architecture: "amd64",
        kernelVersion: "6.18",
        containerRuntimeVersion: "containerd://2.1.4",
        kubeletVersion: "v1.36.3",
        ...info,
      },
      runtimeHandlers: [{ name: "", features: { userNamespaces } }],
    },
  });
}

function lease(name: string, renewTime: string, writtenAt: string | undefined = now.toISOString()) {
  return { name, holder: name, renewTime, durationSeconds: 15, writtenAt };
}

const good: ClusterFacts = {
  now,
  namespace: "t",
  beside: { value: undefined },
  version: { value: "v1.36.3" },
  serverTime: { value: { at: now, roundTripMilliseconds: 5 } },
  nodes: { value: [node("n")] },
  nodeLeases: { value: [lease("n", now.toISOString())] },
  controllers: { value: lease("ramet-controllers", now.toISOString()) },
  crds: { value: { found: ["sandboxes.agents.kruise.io"], missing: [] } },
  others: { value: [] },
  podSecurity: { value: "privileged" },
  store: { value: { checkedAt: now.toISOString(), dataMissing: 0 } },
  missingRights: { value: [] },
  unpulledCells: { value: [] },
  cells: { value: [] },
  captures: { value: [] },
  shutdowns: { value: [] },
  budgets: { value: [] },
  volumeClasses: { value: { storage: [], snapshots: undefined } },
  snapshots: {
    crds: { value: [] },
    controllers: { value: [] },
    contents: { value: [] },
    quotas: { value: [] },
    stored: undefined,
  },
};

function levels(facts: Partial<ClusterFacts> = {}) {
  return Object.fromEntries(findingsOf({ ...good, ...facts }).map(({ check, level }) => [check, level]));
}

function found(check: string, facts: Partial<ClusterFacts>) {
  return findingsOf({ ...good, ...facts }).find((one) => one.check === check);
}

const nodes = (...all: ClusterNode[]): Partial<ClusterFacts> => ({ nodes: { value: all } });
const containing = (text: string) => expect.stringContaining(text) as string;

describe("a good cluster", () => {
  it("has only one finding that is not ok: what the API does not show", () => {
    expect(Object.entries(levels()).filter(([, level]) => level !== "ok")).toEqual([["cgroups", "unknown"]]);
  });

  it("has no Ramet before the installation, which is no problem", () => {
    const before = levels({ crds: { value: { found: [], missing: ["x"] } }, controllers: { value: undefined } });
    expect(before).toMatchObject({ installation: "ok" });
    expect(before).not.toHaveProperty("controllers");
  });
});

describe("an unsuitable cluster", () => {
  it.each([
    ["v1.32.0", "error"],
    ["v1.33.1", "warning"],
    ["v1.35.0-gke.12", "ok"],
    ["v1.40.0", "ok"],
    ["weird", "error"],
  ])("Kubernetes %s: %s", (version, level) => {
    expect(levels({ version: { value: version } })["kubernetes"]).toBe(level);
  });

  it.each([
    ["containerd://1.7.27", "error"],
    ["containerd://2.1.0", "ok"],
    ["cri-o://1.30.1", "error"],
    ["docker://27.0", "unknown"],
  ])("the runtime %s: %s", (containerRuntimeVersion, level) => {
    const facts = nodes(node("good"), node("n", { info: { containerRuntimeVersion } }));
    expect(found("container-runtime", facts)).toMatchObject({
      level,
      message: containing(level === "ok" ? "containerd" : "n"),
    });
  });

  it("names runc if kernel and container runtime suffice for user namespaces", () => {
    const without = (info: object) => nodes(node("n", { userNamespaces: false, info }));
    const newer = without({ kernelVersion: "6.18", containerRuntimeVersion: "containerd://2.4.2" });
    expect(found("user-namespaces", newer)?.action).toMatch(/^Upgrade runc to 1\.2 or later/);
    const older = without({ kernelVersion: "5.15", containerRuntimeVersion: "containerd://2.4.2" });
    expect(found("user-namespaces", older)?.action).toMatch(/^Use nodes with Linux 6\.3 or later/);
  });

  it("has nodes that cannot pull the cell image", () => {
    const one = { image: "registry.example/cell:2", why: "Back-off pulling image: not found" };
    expect(found("cell-image", { unpulledCells: { value: [one, one] } })).toMatchObject({
      level: "error",
      message: containing("cannot pull the cell image registry.example/cell:2, which 2 sandboxes wait for"),
    });
  });

  it("has kubelets that are older than the API server", () => {
    expect(levels(nodes(node("n", { info: { kubeletVersion: "v1.32.4" } })))["kubelet"]).toBe("error");
    expect(levels(nodes(node("n", { info: { kubeletVersion: "v1.34.4" } })))["kubelet"]).toBe("warning");
  });

  it("has no node, or nodes that are not ready", () => {
    expect(levels(nodes())["nodes"]).toBe("error");
    expect(levels(nodes(node("n", { unschedulable: true })))["nodes"]).toBe("error");
    expect(levels(nodes(node("n", { ready: "Unknown" })))["nodes"]).toBe("error");
    expect(levels(nodes(node("a"), node("n", { ready: "False" })))["nodes"]).toBe("warning");
  });

  it("names the nodes without user namespaces", () => {
    expect(found("user-namespaces", nodes(node("a"), node("b", { userNamespaces: false })))).toMatchObject({
      level: "warning",
      message: containing("1 of 2 nodes report no user namespaces: b;"),
      nodes: ["b"],
    });
    const many = Array.from({ length: 9 }, (_, index) => `n${index}`);
    expect(found("user-namespaces", nodes(...many.map((name) => node(name, { userNamespaces: false }))))).toMatchObject(
      { message: containing("n4 and 4 more"), nodes: many },
    );
    expect(found("user-namespaces", nodes(node("a"), node("b")))).toMatchObject({ level: "ok", nodes: ["a", "b"] });
    const local = node("local", {
      userNamespaces: false,
      labels: { "node.kubernetes.io/instance-type": "ramet-local" },
    });
    expect(levels(nodes(local))["user-namespaces"]).toBe("ok");
  });

  it("has nodes with different CPUs", () => {
    const typed = (name: string, type: string) => node(name, { labels: { "node.kubernetes.io/instance-type": type } });
    const arm = node("arm", { info: { architecture: "arm64" } });
    expect(levels(nodes(node("a"), arm))["cpu"]).toBe("warning");
    expect(levels(nodes(typed("a", "m7i"), typed("b", "m7i")))["cpu"]).toBe("ok");
    expect(levels(nodes(typed("a", "m7i"), typed("b", "m5")))["cpu"]).toBe("warning");
    expect(levels(nodes(node("a"), node("b")))["cpu"]).toBe("unknown");
    const featured = (name: string) =>
      node(name, { labels: { "feature.node.kubernetes.io/cpu-cpuid.AVX512F": "true" } });
    expect(levels(nodes(featured("a"), featured("b")))["cpu"]).toBe("ok");
  });

  it("has another controller for the same kinds", () => {
    const others = { value: [{ name: "OpenKruise Agents", sign: "the Lease sandbox-system/x" }] };
    expect(found("other-controllers", { others })).toMatchObject({
      level: "error",
      message: containing("OpenKruise Agents"),
    });
  });

  it("has a namespace that refuses cells", () => {
    expect(found("pod-security", { podSecurity: { value: null } })).toMatchObject({ level: "warning" });
    const at = found("pod-security", { podSecurity: { value: "restricted" } });
    expect(at).toMatchObject({
      level: "error",
      action: containing("kubectl label namespace t pod-security.kubernetes.io/enforce=privileged"),
    });
  });
});

describe("an installation beside other controllers", () => {
  const openkruise = { name: "OpenKruise Agents or ACS", sign: "the Lease sandbox-system/x" };
  const beside = {
    beside: { value: "openkruise" },
    others: { value: [openkruise] },
    crds: { value: { found: ["sandboxes.agents.kruise.io", "namedsnapshots.ramet.dev"], missing: [] } },
  };

  it("expects the other controller, and asks for nothing that only cells need", () => {
    const restricted = { ...nodes(), podSecurity: { value: "restricted" }, version: { value: "v1.31.0" } };
    const all = Object.values(levels({ ...beside, ...restricted }));
    expect(all).toEqual(all.map(() => "ok"));
    expect(found("other-controllers", beside)?.message).toContain("the Lease sandbox-system/x");
  });

  it("reports that no such controller runs, also if its CRDs are there", () => {
    const crd = { sign: "the CustomResourceDefinition sandboxes.agents.kruise.io, which Ramet did not make" };
    for (const value of [[], [crd]]) {
      expect(found("other-controllers", { ...beside, others: { value } })).toMatchObject({
        level: "warning",
        message: containing("No controller of openkruise was found"),
      });
    }
  });

  it("reports missing kinds of the other project, and of Ramet after the installation only", () => {
    const missing = ["sandboxes.agents.kruise.io", "namedsnapshots.ramet.dev"];
    const before = { ...beside, crds: { value: { found: [], missing } } };
    expect(levels(before)).toMatchObject({ crds: "error", installation: "ok" });
    expect(levels(before)).not.toHaveProperty("controllers");
    expect(levels({ ...beside, controllers: { value: undefined } })["controllers"]).toBe("error");
  });

  it("takes nothing for good that could not be read", () => {
    for (const key of ["version", "others", "crds", "missingRights"] as const) {
      const findings = findingsOf({ ...good, ...beside, [key]: { unknown: "you are not allowed" } });
      expect(
        findings.map(({ level }) => level).filter((level) => level !== "ok"),
        key,
      ).toEqual(["unknown"]);
    }
  });
});

describe("clocks", () => {
  it("are compared with the API server's", () => {
    const at = (seconds: number) => new Date(now.getTime() + seconds * 1000);
    const server = (seconds: number) =>
      levels({ serverTime: { value: { at: at(seconds), roundTripMilliseconds: 100 } } })["clock"];
    expect([server(2), server(-2), server(60)]).toEqual(["ok", "ok", "warning"]);
    const skewed = (seconds: number) =>
      levels({ nodeLeases: { value: [lease("n", at(seconds).toISOString())] } })["clock-skew"];
    expect([skewed(-1), skewed(10), skewed(-120)]).toEqual(["ok", "warning", "error"]);
  });

  it("are unknown without a Lease that shows when it was written", () => {
    const facts = {
      nodeLeases: { value: [{ ...lease("n", now.toISOString()), writtenAt: undefined }] },
      controllers: { value: undefined },
    };
    expect(levels(facts)["clock-skew"]).toBe("unknown");
  });
});

describe("an installation", () => {
  it("lacks CRDs of this version", () => {
    expect(found("crds", { crds: { value: { found: ["a"], missing: ["b.ramet.dev"] } } })).toMatchObject({
      level: "error",
      message: containing("b.ramet.dev"),
    });
  });

  it.each([
    ["none was ever there", undefined, "error"],
    ["the leader is silent", lease("c", "2029-12-31T23:58:00Z"), "error"],
    ["the last one released the lease", { ...lease("c", now.toISOString()), holder: "" }, "error"],
    ["one leads", lease("c", "2029-12-31T23:59:55Z"), "ok"],
  ])("has controllers: %s", (_, controllers, level) => {
    expect(levels({ controllers: { value: controllers } })["controllers"]).toBe(level);
  });

  it.each(["StoreFull", "StoreUnavailable", "StoreReadOnly", "StoreOfAnotherCluster"])(
    "has a store that refuses: %s",
    (code) => {
      const report = { checkedAt: now.toISOString(), dataMissing: 0 };
      const refused = { level: "error", message: containing(": no"), action: containing(`ramet explain ${code}`) };
      const problem = { code, cause: "no" };
      for (const reported of [{ problem }, { captureProblem: problem }])
        expect(found("store", { store: { value: { ...report, ...reported } } })).toMatchObject(refused);
    },
  );

  it.each([
    ["nobody has checked", undefined, "unknown"],
    ["nobody has checked for long", { checkedAt: "2029-12-31T23:00:00Z", dataMissing: 0 }, "unknown"],
    ["has lost data", { checkedAt: now.toISOString(), dataMissing: 2 }, "warning"],
  ])("has a store that %s", (_, report, level) => {
    expect(levels({ store: { value: report } })["store"]).toBe(level);
  });

  it("names the rights that the caller lacks, and for what", () => {
    const right = {
      verb: "create",
      group: "apps",
      resource: "deployments",
      namespaced: true,
      purpose: "install Ramet",
    };
    expect(found("rbac", { missingRights: { value: [right] } })).toMatchObject({
      level: "warning",
      message: "You lack rights to install Ramet: create deployments",
    });
  });
});

it("never takes what cannot be read for good or for absent", () => {
  const keys = [
    "version",
    "serverTime",
    "nodes",
    "nodeLeases",
    "crds",
    "others",
    "podSecurity",
    "store",
    "missingRights",
    "unpulledCells",
  ] as const;
  for (const key of keys) {
    const findings = findingsOf({ ...good, [key]: { unknown: "you are not allowed" } });
    const unknown = findings.filter(({ message }) => message.includes("you are not allowed"));
    expect(
      unknown.map(({ level }) => level),
      key,
    ).toEqual(["unknown"]);
    expect(unknown[0]?.action).toBeTruthy();
  }
});

it("compares versions by their numbers", () => {
  const part = fc.integer({ min: 0, max: 50 });
  fc.assert(
    fc.property(part, part, part, part, (a, b, c, d) => {
      expect(isAtLeast(`v${a}.${b}.7+x`, `${c}.${d}`)).toBe(a > c || (a === c && b >= d));
    }),
  );
  expect(isAtLeast("1.10", "1.9")).toBe(true);
  expect(isAtLeast("", "1.9")).toBe(false);
});
