import { expect, it } from "vitest";
import { type Finding, throwOnErrors } from "./finding.ts";
import { planStack } from "./plan-stack.ts";
import type { StackRequest } from "./stack-request.ts";
import {
  type ObservedController,
  crdNames,
  type ObservedCrd,
  emptyCluster,
  type ObservedCluster,
} from "./observed-cluster.ts";

const request: StackRequest = {
  cloud: "generic",
  mode: "auto",
  groupSnapshots: false,
  owners: ["me", "before"],
  classes: [],
  addons: [],
  driversMayCome: false,
  controller: { namespace: "kube-system", name: "snapshot-controller" },
};
const empty: ObservedCluster = { ...emptyCluster, server: "v1.36.3" };

it("declares what is not there and what it has declared, and nothing else", () => {
  const all = { crds: true, controller: true, addons: [], findings: [] };
  expect(planStack(request, empty)).toMatchObject({ ...all, groupCrds: false });
  expect(planStack({ ...request, groupSnapshots: true }, empty)).toMatchObject({ ...all, groupCrds: true });
  expect(planStack(request, { ...empty, crds: crds(crdNames.core, { declaredBy: "me" }) })).toMatchObject(all);
  const others = crds(crdNames.core, { manager: "kubectl" });
  expect(planStack(request, { ...empty, crds: others })).toMatchObject({ crds: false, controller: true, findings: [] });
  // Of three that belong together one alone is not declared.
  const part = planStack(request, { ...empty, crds: others.slice(0, 1) });
  expect(part).toMatchObject({ crds: false, findings: [{ severity: "error" }] });
  expect(part.findings[0]?.problem).toBe(
    "kubectl has brought volumesnapshotclasses.snapshot.storage.k8s.io and not " +
      "volumesnapshotcontents.snapshot.storage.k8s.io, volumesnapshots.snapshot.storage.k8s.io, which belong together",
  );
  const onGke = planStack({ ...request, cloud: "gke" }, { ...empty, server: "v1.33.4-gke.1", crds: others.slice(1) });
  expect(onGke.findings.filter(({ severity }) => severity === "error")).toMatchObject([
    { problem: expect.stringMatching(/and not volumesnapshotclasses/) as string },
  ]);
});

it("goes on with what it has declared under an earlier name, and leaves nothing to that", () => {
  const crdsOf = (declaredBy: string) => crds(crdNames.core, { declaredBy });
  const running = (declaredBy: string) => ({
    ...empty,
    crds: crdsOf(declaredBy),
    controllers: [controller({ declaredBy })],
  });
  expect(planStack(request, running("before"))).toMatchObject({ crds: true, controller: true, findings: [] });
  const { findings } = planStack(request, running("you"));
  expect(findings).toMatchObject([
    {
      problem:
        "A snapshot-controller is there and belongs to the Pulumi resource you (Deployment kube-system/snapshot-controller)",
      hint: expect.stringMatching(/aliases.*kubectl annotate --overwrite deployment snapshot-controller/) as string,
      severity: "error",
    },
  ]);
  expect(planStack({ ...request, mode: "adopt" }, running("you"))).toMatchObject({ controller: false, findings: [] });
  const addons = [{ addon: "snapshot-controller" }];
  const eks = { ...empty, server: "v1.33.4-eks-1", crds: crds(crdNames.core, { manager: "an EKS add-on" }) };
  const installed = { declaredBy: "you", addons: ["snapshot-controller"] };
  const refused = planStack({ ...request, cloud: "eks", addons }, { ...eks, installed }).findings;
  expect(hows(refused)).toMatch(/kubectl annotate --overwrite configmap ramet-snapshot-stack --namespace kube-system/);
});

it("keeps its controller when a second one comes, and tells of that", () => {
  const controllers = [
    controller({ declaredBy: "me" }),
    controller({ name: "csi-snapshot-controller", manager: "kubectl" }),
  ];
  const plan = planStack(request, { ...empty, controllers });
  expect(plan).toMatchObject({ controller: true, findings: [{ severity: "warning" }] });
  expect(plan.findings[0]?.problem).toMatch(
    /kube-system\/csi-snapshot-controller of kubectl is a second snapshot-controller/,
  );
});

it("says what has to go before a controller of others can be declared", () => {
  const kubectl = { manager: "kubectl", declaredBy: undefined };
  const account = { kind: "ServiceAccount", namespace: "kube-system", name: "snapshot-controller", ...kubectl };
  const observed = { ...empty, controllers: [controller(kubectl)], controllerObjects: [account] };
  const refused = planStack({ ...request, mode: "install" }, observed);
  expect(refused.controller).toBe(false);
  expect(hows(refused.findings)).toMatch(
    /kubectl delete --namespace kube-system deployment\/snapshot-controller serviceaccount\/snapshot-controller$/,
  );
});

it("adopts only what is there", () => {
  const { findings } = planStack({ ...request, mode: "adopt" }, empty);
  expect(findings.map(({ problem }) => problem)).toEqual([
    "The set of CRDs of volume snapshots is not there",
    "A snapshot-controller is not there",
  ]);
});

it("says all that is in the way at once", () => {
  const { findings } = planStack({ ...request, cloud: "gke" }, { ...empty, server: "v1.33.4-eks-1" });
  expect(() => {
    throwOnErrors("gke", findings);
  }).toThrow(
    /is one of eks: its API server is v1\.33\.4-eks-1.*Besides: The set of CRDs of volume snapshots is not there/,
  );
});

it("makes no second controller beside one that it cannot see, and says when there is none", () => {
  const leases = [{ namespace: "kube-system", holder: "pod-1" }];
  expect(hows(planStack(request, { ...empty, leases }).findings)).toMatch(
    /repeat in a minute; else set mode to "adopt"/,
  );
  const there = { ...empty, leases, crds: crds(crdNames.core, { manager: "kubectl" }) };
  expect(planStack({ ...request, mode: "adopt" }, there)).toMatchObject({ controller: false, findings: [] });
  const addons = [{ addon: "snapshot-controller" }];
  const without = { ...there, leases: [], server: "v1.33.4-eks-1" };
  const { findings } = planStack({ ...request, cloud: "eks", addons }, without);
  expect(findings).toMatchObject([{ problem: expect.stringMatching(/^no snapshot-controller is seen/) as string }]);
});

it("names how each managed cloud is had to bring what is missing", () => {
  const hows = (["gke", "aks", "acs"] as const).map((cloud) => planStack({ ...request, cloud }, empty).findings);
  expect(hows.map((findings) => findings.find(({ severity }) => severity === "error")?.hint)).toEqual([
    expect.stringMatching(/^Turn on .* gcloud container clusters update/),
    expect.stringMatching(/^Turn on .* az aks update .* --enable-snapshot-controller/),
    expect.stringMatching(/^Install the disk plugin/),
  ]);
  expect(planStack({ ...request, cloud: "local" }, empty)).toMatchObject({
    crds: false,
    controller: false,
    addons: [],
  });
});

it("verifies driver and controller of a managed cluster, also for a stack without classes", () => {
  const gke: StackRequest = { ...request, cloud: "gke" };
  const there = {
    ...empty,
    server: "v1.33.4-gke.1",
    crds: crds(crdNames.core, { manager: "the cluster's add-on manager" }),
  };
  expect(planStack(gke, there).findings).toMatchObject([
    { problem: "the driver pd.csi.storage.gke.io is not there", hint: expect.stringMatching(/^Turn on/) as string },
    { problem: expect.stringMatching(/^no snapshot-controller is seen/) as string, severity: "warning" },
  ]);
  const leases = [{ namespace: "kube-system", holder: "pod-1" }];
  expect(planStack(gke, { ...there, leases, drivers: ["pd.csi.storage.gke.io"] }).findings).toEqual([]);
});

it("does not take Ramet's own CRDs for those of ACS", () => {
  const acs: StackRequest = { ...request, cloud: "acs" };
  const core = crds(crdNames.core, { manager: "kubectl" });
  const own = crds(crdNames.sandboxes, { isRamets: true });
  const there = { ...empty, server: "v1.33.4-aliyun.1", drivers: ["diskplugin.csi.alibabacloud.com"] };
  const cluster = { ...there, leases: [{ namespace: "kube-system", holder: "pod-1" }], crds: [...core, ...own] };
  expect(planStack(acs, cluster).findings).toMatchObject([
    { problem: expect.stringMatching(/Sandbox and Checkpoint .* of ACS is not there/) as string, severity: "error" },
  ]);
  expect(planStack(acs, { ...cluster, hasSandboxController: true }).findings).toEqual([]);
  const theirs = { ...cluster, crds: [...core, ...crds(crdNames.sandboxes, {})] };
  expect(planStack(acs, theirs).findings).toMatchObject([
    { problem: expect.stringMatching(/^no controller of sandboxes is seen/) as string, severity: "warning" },
  ]);
});

it("says on EKS that there are no snapshots of groups", () => {
  const eks = { ...request, cloud: "eks", groupSnapshots: true } as const;
  const { findings } = planStack(eks, { ...empty, server: "v1.33.4-eks-1" });
  expect(findings).toMatchObject([
    { hint: expect.stringMatching(/^Leave groupSnapshots out/) as string, severity: "error" },
  ]);
});

it("has EKS install the add-ons that nobody else has, and goes on to", () => {
  const addons = [
    { addon: "snapshot-controller" },
    { addon: "eks-pod-identity-agent", daemonSet: "eks-pod-identity-agent" },
    { addon: "aws-ebs-csi-driver", driver: "ebs.csi.aws.com" },
  ];
  const eks: StackRequest = { ...request, cloud: "eks", addons };
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
  expect(refused.map(({ problem }) => problem)).toEqual([
    "What the add-on snapshot-controller brings is there and belongs to an EKS add-on",
    "What the add-on eks-pod-identity-agent brings is there and belongs to you",
    "What the add-on aws-ebs-csi-driver brings is there and belongs to you",
  ]);
});

it("refuses what would break on the way from an older version, and says how to go on", () => {
  const ours = { declaredBy: "me" };
  const group = crds(crdNames.group, { ...ours, stored: ["v1alpha1", "v1beta1"] });
  const old = planStack({ ...request, groupSnapshots: true }, { ...empty, crds: group }).findings;
  expect(old).toHaveLength(3);
  expect(old[0]?.problem).toMatch(/may be stored as v1alpha1, which v8.6 does not have/);
  const converting = crds(crdNames.core, { ...ours, hasConversionWebhook: true });
  expect(hows(planStack(request, { ...empty, crds: converting }).findings)).toMatch(
    /kubectl patch crd .* --type merge -p/,
  );
  expect(hows(planStack(request, { ...empty, server: "v1.24.17" }).findings)).toMatch(/newer version/);
  const unserved = crds(crdNames.core, { manager: "kubectl", served: ["v1beta1"] });
  expect(hows(planStack(request, { ...empty, crds: unserved }).findings)).toMatch(/Have that manager bring it/);
});

it("refuses upstream's webhook, and only tells of another's", () => {
  const webhooks = [
    { name: "validation-webhook.snapshot.storage.k8s.io", isUpstreams: true },
    { name: "kyverno", isUpstreams: false },
  ];
  const { findings } = planStack(request, { ...empty, webhooks });
  expect(findings.map(({ severity }) => severity)).toEqual(["error", "warning"]);
});

it("says what the rules of v8 would break, and what its controller does otherwise", () => {
  const old = crds(crdNames.core, { declaredBy: "me", hasRules: false });
  expect(planStack(request, { ...empty, crds: old }).findings).toMatchObject([
    { hint: expect.stringMatching(/allow-volume-mode-change=true/) as string, severity: "warning" },
  ]);
  const { findings } = planStack(request, { ...empty, crds: old, breakingRules: ["volumesnapshot/default/a"] });
  expect(findings).toMatchObject([
    { problem: expect.stringMatching(/: volumesnapshot\/default\/a$/) as string, severity: "error" },
    { severity: "warning" },
  ]);
});

it("tells of an older controller beside its CRDs, and refuses it and older CRDs for groups", () => {
  const v6 = controller({ manager: "kubectl", image: "snapshot-controller:v6.3.3" });
  const observed = { ...empty, controllers: [v6] };
  expect(planStack(request, observed)).toMatchObject({
    crds: true,
    controller: false,
    findings: [{ severity: "warning" }],
  });
  const groups = { ...request, groupSnapshots: true };
  expect(planStack(groups, observed).findings).toMatchObject([{ severity: "error" }]);
  const v8 = controller({ manager: "kubectl" });
  expect(planStack(groups, { ...empty, controllers: [v8] }).findings).toEqual([]);
  const alpha = crds(crdNames.group, { manager: "kubectl", served: ["v1alpha1"], stored: ["v1alpha1"] });
  const { findings } = planStack(groups, { ...empty, crds: alpha });
  expect(findings).toHaveLength(3);
  expect(findings[0]).toMatchObject({
    problem: expect.stringMatching(/of kubectl serves v1alpha1, and snapshots are taken as v1 or v1beta2/) as string,
    severity: "error",
  });
});

it("tells what it could not read", () => {
  const { findings } = planStack(request, { ...empty, unread: ["nodes"] });
  expect(findings).toMatchObject([{ code: "Forbidden", severity: "warning" }]);
});

function crds(names: readonly string[], given: Partial<ObservedCrd>): ObservedCrd[] {
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

function controller(given: Partial<ObservedController>): ObservedController {
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
  return findings.map(({ hint }) => hint).join("\n");
}
