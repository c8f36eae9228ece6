import { expect, it } from "vitest";
import { type Finding, refuseFor } from "./finding.ts";
import { planStack } from "./plan-stack.ts";
import type { StackRequest } from "./stack-request.ts";
import { type ControllerSeen, crdNames, type CrdSeen, nothingSeen, type StackSeen } from "./stack-seen.ts";

const wish: StackRequest = {
  cloud: "generic",
  mode: "auto",
  groupSnapshots: false,
  owners: ["me", "before"],
  classes: [],
  addons: [],
  driversMayCome: false,
  controller: { namespace: "kube-system", name: "snapshot-controller" },
};
const empty: StackSeen = { ...nothingSeen, server: "v1.36.3" };

it("declares what is not there and what it has declared, and nothing else", () => {
  const all = { crds: true, controller: true, addons: [], findings: [] };
  expect(planStack(wish, empty)).toMatchObject({ ...all, groupCrds: false });
  expect(planStack({ ...wish, groupSnapshots: true }, empty)).toMatchObject({ ...all, groupCrds: true });
  expect(planStack(wish, { ...empty, crds: crds(crdNames.core, { declaredBy: "me" }) })).toMatchObject(all);
  const others = crds(crdNames.core, { manager: "kubectl" });
  expect(planStack(wish, { ...empty, crds: others })).toMatchObject({ crds: false, controller: true, findings: [] });
  // Of three that belong together one alone is not declared.
  const part = planStack(wish, { ...empty, crds: others.slice(0, 1) });
  expect(part).toMatchObject({ crds: false, findings: [{ weight: "refuse" }] });
  expect(part.findings[0]?.what).toBe(
    "kubectl has brought volumesnapshotclasses.snapshot.storage.k8s.io and not " +
      "volumesnapshotcontents.snapshot.storage.k8s.io, volumesnapshots.snapshot.storage.k8s.io, which belong together",
  );
  const onGke = planStack({ ...wish, cloud: "gke" }, { ...empty, server: "v1.33.4-gke.1", crds: others.slice(1) });
  expect(onGke.findings.filter(({ weight }) => weight === "refuse")).toMatchObject([
    { what: expect.stringMatching(/and not volumesnapshotclasses/) as string },
  ]);
});

it("goes on with what it has declared under an earlier name, and leaves nothing to that", () => {
  const crdsOf = (declaredBy: string) => crds(crdNames.core, { declaredBy });
  const running = (declaredBy: string) => ({
    ...empty,
    crds: crdsOf(declaredBy),
    controllers: [controller({ declaredBy })],
  });
  expect(planStack(wish, running("before"))).toMatchObject({ crds: true, controller: true, findings: [] });
  const { findings } = planStack(wish, running("you"));
  expect(findings).toMatchObject([
    {
      what: "A snapshot-controller is there and belongs to the Pulumi resource you (Deployment kube-system/snapshot-controller)",
      how: expect.stringMatching(/aliases.*kubectl annotate --overwrite deployment snapshot-controller/) as string,
      weight: "refuse",
    },
  ]);
  expect(planStack({ ...wish, mode: "adopt" }, running("you"))).toMatchObject({ controller: false, findings: [] });
  const addons = [{ addon: "snapshot-controller" }];
  const eks = { ...empty, server: "v1.33.4-eks-1", crds: crds(crdNames.core, { manager: "an EKS add-on" }) };
  const installed = { declaredBy: "you", addons: ["snapshot-controller"] };
  const refused = planStack({ ...wish, cloud: "eks", addons }, { ...eks, installed }).findings;
  expect(hows(refused)).toMatch(/kubectl annotate --overwrite configmap ramet-snapshot-stack --namespace kube-system/);
});

it("keeps its controller when a second one comes, and tells of that", () => {
  const controllers = [
    controller({ declaredBy: "me" }),
    controller({ name: "csi-snapshot-controller", manager: "kubectl" }),
  ];
  const plan = planStack(wish, { ...empty, controllers });
  expect(plan).toMatchObject({ controller: true, findings: [{ weight: "tell" }] });
  expect(plan.findings[0]?.what).toMatch(
    /kube-system\/csi-snapshot-controller of kubectl is a second snapshot-controller/,
  );
});

it("says what has to go before a controller of others can be declared", () => {
  const kubectl = { manager: "kubectl", declaredBy: undefined };
  const account = { kind: "ServiceAccount", namespace: "kube-system", name: "snapshot-controller", ...kubectl };
  const seen = { ...empty, controllers: [controller(kubectl)], controllerObjects: [account] };
  const refused = planStack({ ...wish, mode: "install" }, seen);
  expect(refused.controller).toBe(false);
  expect(hows(refused.findings)).toMatch(
    /kubectl delete --namespace kube-system deployment\/snapshot-controller serviceaccount\/snapshot-controller$/,
  );
});

it("adopts only what is there", () => {
  const { findings } = planStack({ ...wish, mode: "adopt" }, empty);
  expect(findings.map(({ what }) => what)).toEqual([
    "The set of CRDs of volume snapshots is not there",
    "A snapshot-controller is not there",
  ]);
});

it("says all that is in the way at once", () => {
  const { findings } = planStack({ ...wish, cloud: "gke" }, { ...empty, server: "v1.33.4-eks-1" });
  expect(() => {
    refuseFor("gke", findings);
  }).toThrow(
    /is one of eks: its API server is v1\.33\.4-eks-1.*Besides: The set of CRDs of volume snapshots is not there/,
  );
});

it("makes no second controller beside one that it cannot see, and says when there is none", () => {
  const leases = [{ namespace: "kube-system", holder: "pod-1" }];
  expect(hows(planStack(wish, { ...empty, leases }).findings)).toMatch(/repeat in a minute; else set mode to "adopt"/);
  const there = { ...empty, leases, crds: crds(crdNames.core, { manager: "kubectl" }) };
  expect(planStack({ ...wish, mode: "adopt" }, there)).toMatchObject({ controller: false, findings: [] });
  const addons = [{ addon: "snapshot-controller" }];
  const without = { ...there, leases: [], server: "v1.33.4-eks-1" };
  const { findings } = planStack({ ...wish, cloud: "eks", addons }, without);
  expect(findings).toMatchObject([{ what: expect.stringMatching(/^no snapshot-controller is seen/) as string }]);
});

it("names how each managed cloud is had to bring what is missing", () => {
  const hows = (["gke", "aks", "acs"] as const).map((cloud) => planStack({ ...wish, cloud }, empty).findings);
  expect(hows.map((findings) => findings.find(({ weight }) => weight === "refuse")?.how)).toEqual([
    expect.stringMatching(/^Turn on .* gcloud container clusters update/),
    expect.stringMatching(/^Turn on .* az aks update .* --enable-snapshot-controller/),
    expect.stringMatching(/^Install the disk plugin/),
  ]);
  expect(planStack({ ...wish, cloud: "local" }, empty)).toMatchObject({ crds: false, controller: false, addons: [] });
});

it("verifies driver and controller of a managed cluster, also for a stack without classes", () => {
  const gke: StackRequest = { ...wish, cloud: "gke" };
  const there = {
    ...empty,
    server: "v1.33.4-gke.1",
    crds: crds(crdNames.core, { manager: "the cluster's add-on manager" }),
  };
  expect(planStack(gke, there).findings).toMatchObject([
    { what: "the driver pd.csi.storage.gke.io is not there", how: expect.stringMatching(/^Turn on/) as string },
    { what: expect.stringMatching(/^no snapshot-controller is seen/) as string, weight: "tell" },
  ]);
  const leases = [{ namespace: "kube-system", holder: "pod-1" }];
  expect(planStack(gke, { ...there, leases, drivers: ["pd.csi.storage.gke.io"] }).findings).toEqual([]);
});

it("does not take Ramet's own CRDs for those of ACS", () => {
  const acs: StackRequest = { ...wish, cloud: "acs" };
  const core = crds(crdNames.core, { manager: "kubectl" });
  const own = crds(crdNames.sandboxes, { isRamets: true });
  const there = { ...empty, server: "v1.33.4-aliyun.1", drivers: ["diskplugin.csi.alibabacloud.com"] };
  const cluster = { ...there, leases: [{ namespace: "kube-system", holder: "pod-1" }], crds: [...core, ...own] };
  expect(planStack(acs, cluster).findings).toMatchObject([
    { what: expect.stringMatching(/Sandbox and Checkpoint .* of ACS is not there/) as string, weight: "refuse" },
  ]);
  expect(planStack(acs, { ...cluster, hasSandboxController: true }).findings).toEqual([]);
  const theirs = { ...cluster, crds: [...core, ...crds(crdNames.sandboxes, {})] };
  expect(planStack(acs, theirs).findings).toMatchObject([
    { what: expect.stringMatching(/^no controller of sandboxes is seen/) as string, weight: "tell" },
  ]);
});

it("says on EKS that there are no snapshots of groups", () => {
  const eks = { ...wish, cloud: "eks", groupSnapshots: true } as const;
  const { findings } = planStack(eks, { ...empty, server: "v1.33.4-eks-1" });
  expect(findings).toMatchObject([
    { how: expect.stringMatching(/^Leave groupSnapshots out/) as string, weight: "refuse" },
  ]);
});

it("has EKS install the add-ons that nobody else has, and goes on to", () => {
  const addons = [
    { addon: "snapshot-controller" },
    { addon: "eks-pod-identity-agent", daemonSet: "eks-pod-identity-agent" },
    { addon: "aws-ebs-csi-driver", driver: "ebs.csi.aws.com" },
  ];
  const eks: StackRequest = { ...wish, cloud: "eks", addons };
  const names = addons.map(({ addon }) => addon);
  const before = { ...empty, server: "v1.33.4-eks-1" };
  const nothingElse = { crds: false, controller: false, findings: [] };
  expect(planStack(eks, before)).toMatchObject({ addons: names, ...nothingElse });
  const drivers = ["ebs.csi.aws.com"];
  const after = {
    ...before,
    leases: [{ namespace: "kube-system", holder: "pod-1" }],
    crds: crds(crdNames.core, { manager: "an EKS add-on" }),
    drivers,
    daemonSets: [names[1] ?? ""],
  };
  expect(planStack(eks, after)).toMatchObject({ addons: [], ...nothingElse });
  expect(planStack(eks, { ...after, installed: { declaredBy: "me", addons: names } })).toMatchObject({ addons: names });
  const others = { ...after, installed: { declaredBy: "you", addons: names } };
  const refused = planStack({ ...eks, mode: "install" }, others).findings;
  expect(refused.map(({ what }) => what)).toEqual([
    "What the add-on snapshot-controller brings is there and belongs to an EKS add-on",
    "What the add-on eks-pod-identity-agent brings is there and belongs to you",
    "What the add-on aws-ebs-csi-driver brings is there and belongs to you",
  ]);
});

it("refuses what would break on the way from an older version, and says how to go on", () => {
  const ours = { declaredBy: "me" };
  const group = crds(crdNames.group, { ...ours, stored: ["v1alpha1", "v1beta1"] });
  const old = planStack({ ...wish, groupSnapshots: true }, { ...empty, crds: group }).findings;
  expect(old).toHaveLength(3);
  expect(old[0]?.what).toMatch(/may be stored as v1alpha1, which v8.6 does not have/);
  const converting = crds(crdNames.core, { ...ours, hasConversionWebhook: true });
  expect(hows(planStack(wish, { ...empty, crds: converting }).findings)).toMatch(
    /kubectl patch crd .* --type merge -p/,
  );
  expect(hows(planStack(wish, { ...empty, server: "v1.24.17" }).findings)).toMatch(/newer version/);
  const unserved = crds(crdNames.core, { manager: "kubectl", served: ["v1beta1"] });
  expect(hows(planStack(wish, { ...empty, crds: unserved }).findings)).toMatch(/Have that manager bring it/);
});

it("refuses upstream's webhook, and only tells of another's", () => {
  const webhooks = [
    { name: "validation-webhook.snapshot.storage.k8s.io", isUpstreams: true },
    { name: "kyverno", isUpstreams: false },
  ];
  const { findings } = planStack(wish, { ...empty, webhooks });
  expect(findings.map(({ weight }) => weight)).toEqual(["refuse", "tell"]);
});

it("says what the rules of v8 would break, and what its controller does otherwise", () => {
  const old = crds(crdNames.core, { declaredBy: "me", hasRules: false });
  expect(planStack(wish, { ...empty, crds: old }).findings).toMatchObject([
    { how: expect.stringMatching(/allow-volume-mode-change=true/) as string, weight: "tell" },
  ]);
  const { findings } = planStack(wish, { ...empty, crds: old, breakingRules: ["volumesnapshot/default/a"] });
  expect(findings).toMatchObject([
    { what: expect.stringMatching(/: volumesnapshot\/default\/a$/) as string, weight: "refuse" },
    { weight: "tell" },
  ]);
});

it("tells of an older controller beside its CRDs, and refuses it and older CRDs for groups", () => {
  const v6 = controller({ manager: "kubectl", image: "snapshot-controller:v6.3.3" });
  const seen = { ...empty, controllers: [v6] };
  expect(planStack(wish, seen)).toMatchObject({ crds: true, controller: false, findings: [{ weight: "tell" }] });
  const groups = { ...wish, groupSnapshots: true };
  expect(planStack(groups, seen).findings).toMatchObject([{ weight: "refuse" }]);
  const v8 = controller({ manager: "kubectl" });
  expect(planStack(groups, { ...empty, controllers: [v8] }).findings).toEqual([]);
  const alpha = crds(crdNames.group, { manager: "kubectl", served: ["v1alpha1"], stored: ["v1alpha1"] });
  const { findings } = planStack(groups, { ...empty, crds: alpha });
  expect(findings).toHaveLength(3);
  expect(findings[0]).toMatchObject({
    what: expect.stringMatching(/of kubectl serves v1alpha1, and snapshots are taken as v1 or v1beta2/) as string,
    weight: "refuse",
  });
});

it("tells what it could not read", () => {
  const { findings } = planStack(wish, { ...empty, unread: ["nodes"] });
  expect(findings).toMatchObject([{ code: "Forbidden", weight: "tell" }]);
});

function crds(names: readonly string[], given: Partial<CrdSeen>): CrdSeen[] {
  const plain = {
    served: ["v1"],
    stored: ["v1"],
    hasConversionWebhook: false,
    hasRules: true,
    isRamets: false,
    manager: "kubectl",
    declaredBy: undefined,
  };
  return names.map((name) => ({ ...plain, name, ...given }));
}

function controller(given: Partial<ControllerSeen>): ControllerSeen {
  return {
    namespace: "kube-system",
    name: "snapshot-controller",
    image: "snapshot-controller:v8.6.0",
    arguments: [],
    selector: { "app.kubernetes.io/name": "snapshot-controller" },
    isAvailable: true,
    manager: `the Pulumi resource ${given.declaredBy ?? ""}`,
    declaredBy: undefined,
    ...given,
  };
}

function hows(findings: readonly Finding[]): string {
  return findings.map(({ how }) => how).join("\n");
}
