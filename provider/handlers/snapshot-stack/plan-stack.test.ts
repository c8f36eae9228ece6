import { expect, it } from "vitest";
import type { Finding } from "../../../src/preflight/finding.ts";
import { planStack, throwOnErrors } from "./stack-findings.ts";
import type { StackRequest } from "./stack-parts.ts";
import { crdNames, type ObservedController, type ObservedCrd } from "../../../src/preflight/snapshot-objects.ts";
import { emptyCluster, type ObservedCluster } from "./observed-cluster.ts";

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

it("declares missing parts and its own parts, and nothing else", () => {
  const all = { crds: true, controller: true, addons: [], findings: [] };
  expect(planStack(request, empty)).toMatchObject({ ...all, groupCrds: false });
  expect(planStack({ ...request, groupSnapshots: true }, empty)).toMatchObject({ ...all, groupCrds: true });
  expect(planStack(request, { ...empty, crds: crds(crdNames.core, { declaredBy: "me" }) })).toMatchObject(all);
  const others = crds(crdNames.core, { manager: "kubectl" });
  expect(planStack(request, { ...empty, crds: others })).toMatchObject({ crds: false, controller: true, findings: [] });
  // CRDs that belong together are declared together or not at all.
  const part = planStack(request, { ...empty, crds: others.slice(0, 1) });
  expect(part).toMatchObject({ crds: false, findings: [{ level: "error" }] });
  expect(part.findings[0]?.message).toBe(
    "kubectl installed volumesnapshotclasses.snapshot.storage.k8s.io without " +
      "volumesnapshotcontents.snapshot.storage.k8s.io, volumesnapshots.snapshot.storage.k8s.io, which belong together",
  );
  const onGke = planStack({ ...request, cloud: "gke" }, { ...empty, server: "v1.33.4-gke.1", crds: others.slice(1) });
  expect(onGke.findings.filter(({ level }) => level === "error")).toMatchObject([
    { message: expect.stringMatching(/without volumesnapshotclasses/) as string },
  ]);
});

it("keeps what it declared under an earlier name", () => {
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
      message:
        "A snapshot-controller exists and belongs to the Pulumi resource you (Deployment kube-system/snapshot-controller)",
      action: expect.stringMatching(/aliases.*kubectl annotate --overwrite deployment snapshot-controller/) as string,
      level: "error",
    },
  ]);
  expect(planStack({ ...request, mode: "adopt" }, running("you"))).toMatchObject({ controller: false, findings: [] });
  const addons = [{ addon: "snapshot-controller" }];
  const eks = { ...empty, server: "v1.33.4-eks-1", crds: crds(crdNames.core, { manager: "an EKS add-on" }) };
  const installed = { declaredBy: "you", addons: ["snapshot-controller"] };
  const refused = planStack({ ...request, cloud: "eks", addons }, { ...eks, installed }).findings;
  expect(hows(refused)).toMatch(/kubectl annotate --overwrite configmap ramet-snapshot-stack --namespace kube-system/);
});

it("keeps its controller and warns about a second one", () => {
  const controllers = [
    controller({ declaredBy: "me" }),
    controller({ name: "csi-snapshot-controller", manager: "kubectl" }),
  ];
  const plan = planStack(request, { ...empty, controllers });
  expect(plan).toMatchObject({ controller: true, findings: [{ level: "warning" }] });
  expect(plan.findings[0]?.message).toMatch(
    /kube-system\/csi-snapshot-controller of kubectl is a second snapshot-controller/,
  );
});

it("lists the objects to delete before a controller of another manager can be declared", () => {
  const kubectl = { manager: "kubectl", declaredBy: undefined };
  const account = { kind: "ServiceAccount", namespace: "kube-system", name: "snapshot-controller", ...kubectl };
  const observed = { ...empty, controllers: [controller(kubectl)], controllerObjects: [account] };
  const refused = planStack({ ...request, mode: "install" }, observed);
  expect(refused.controller).toBe(false);
  expect(hows(refused.findings)).toMatch(
    /kubectl delete --namespace kube-system deployment\/snapshot-controller serviceaccount\/snapshot-controller$/,
  );
});

it("adopts only existing parts", () => {
  const { findings } = planStack({ ...request, mode: "adopt" }, empty);
  expect(findings.map(({ message }) => message)).toEqual([
    "The set of CRDs of volume snapshots does not exist",
    "A snapshot-controller does not exist",
  ]);
});

it("reports all errors together", () => {
  const { findings } = planStack({ ...request, cloud: "gke" }, { ...empty, server: "v1.33.4-eks-1" });
  expect(() => {
    throwOnErrors("gke", findings);
  }).toThrow(
    /belongs to eks \(its API server is v1\.33\.4-eks-1\).*Also: The set of CRDs of volume snapshots does not exist/,
  );
});

it("creates no second controller next to one without a visible Deployment, and warns if there is none", () => {
  const leases = [{ namespace: "kube-system", holder: "pod-1" }];
  expect(hows(planStack(request, { ...empty, leases }).findings)).toMatch(
    /try again in a minute; otherwise set mode to "adopt"/,
  );
  const there = { ...empty, leases, crds: crds(crdNames.core, { manager: "kubectl" }) };
  expect(planStack({ ...request, mode: "adopt" }, there)).toMatchObject({ controller: false, findings: [] });
  const addons = [{ addon: "snapshot-controller" }];
  const without = { ...there, leases: [], server: "v1.33.4-eks-1" };
  const { findings } = planStack({ ...request, cloud: "eks", addons }, without);
  expect(findings).toMatchObject([{ message: expect.stringMatching(/^no snapshot-controller is visible/) as string }]);
});

it("explains how to enable missing parts in each managed cloud", () => {
  const hows = (["gke", "aks", "acs"] as const).map((cloud) => planStack({ ...request, cloud }, empty).findings);
  expect(hows.map((findings) => findings.find(({ level }) => level === "error")?.action)).toEqual([
    expect.stringMatching(/^Enable .* gcloud container clusters update/),
    expect.stringMatching(/^Enable .* az aks update .* --enable-snapshot-controller/),
    expect.stringMatching(/^Install the disk plugin/),
  ]);
  expect(planStack({ ...request, cloud: "local" }, empty)).toMatchObject({
    crds: false,
    controller: false,
    addons: [],
  });
});

it("checks driver and controller of a managed cluster, also for a stack without classes", () => {
  const gke: StackRequest = { ...request, cloud: "gke" };
  const there = {
    ...empty,
    server: "v1.33.4-gke.1",
    crds: crds(crdNames.core, { manager: "the cluster's add-on manager" }),
  };
  expect(planStack(gke, there).findings).toMatchObject([
    {
      message: "the driver pd.csi.storage.gke.io is not installed",
      action: expect.stringMatching(/^Enable/) as string,
    },
    { message: expect.stringMatching(/^no snapshot-controller is visible/) as string, level: "warning" },
  ]);
  const leases = [{ namespace: "kube-system", holder: "pod-1" }];
  expect(planStack(gke, { ...there, leases, drivers: ["pd.csi.storage.gke.io"] }).findings).toEqual([]);
});

it("does not mistake Ramet's own CRDs for those of ACS", () => {
  const acs: StackRequest = { ...request, cloud: "acs" };
  const core = crds(crdNames.core, { manager: "kubectl" });
  const own = crds(crdNames.sandboxes, { isRamets: true });
  const there = { ...empty, server: "v1.33.4-aliyun.1", drivers: ["diskplugin.csi.alibabacloud.com"] };
  const cluster = { ...there, leases: [{ namespace: "kube-system", holder: "pod-1" }], crds: [...core, ...own] };
  expect(planStack(acs, cluster).findings).toMatchObject([
    { message: expect.stringMatching(/Sandbox and Checkpoint .* of ACS does not exist/) as string, level: "error" },
  ]);
  expect(planStack(acs, { ...cluster, hasSandboxController: true }).findings).toEqual([]);
  const theirs = { ...cluster, crds: [...core, ...crds(crdNames.sandboxes, {})] };
  expect(planStack(acs, theirs).findings).toMatchObject([
    { message: expect.stringMatching(/^no sandbox controller renews its lease/) as string, level: "warning" },
  ]);
});

it("rejects group snapshots on EKS", () => {
  const eks = { ...request, cloud: "eks", groupSnapshots: true } as const;
  const { findings } = planStack(eks, { ...empty, server: "v1.33.4-eks-1" });
  expect(findings).toMatchObject([
    { action: expect.stringMatching(/^Remove groupSnapshots/) as string, level: "error" },
  ]);
});

it("declares the EKS add-ons that no other manager installed, and keeps declaring them", () => {
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
  expect(refused.map(({ message }) => message)).toEqual([
    "The content of the add-on snapshot-controller exists and belongs to an EKS add-on",
    "The content of the add-on eks-pod-identity-agent exists and belongs to you",
    "The content of the add-on aws-ebs-csi-driver exists and belongs to you",
  ]);
});

it("rejects upgrades that would break, and explains how to fix them", () => {
  const ours = { declaredBy: "me" };
  const group = crds(crdNames.group, { ...ours, stored: ["v1alpha1", "v1beta1"] });
  const old = planStack({ ...request, groupSnapshots: true }, { ...empty, crds: group }).findings;
  expect(old).toHaveLength(3);
  expect(old[0]?.message).toMatch(/may be stored as v1alpha1, which v8.6 no longer has/);
  const converting = crds(crdNames.core, { ...ours, hasConversionWebhook: true });
  expect(hows(planStack(request, { ...empty, crds: converting }).findings)).toMatch(
    /kubectl patch crd .* --type merge -p/,
  );
  expect(hows(planStack(request, { ...empty, server: "v1.24.17" }).findings)).toMatch(/newer version/);
  const unserved = crds(crdNames.core, { manager: "kubectl", served: ["v1beta1"] });
  expect(hows(planStack(request, { ...empty, crds: unserved }).findings)).toMatch(
    /Upgrade it to a newer version with that manager/,
  );
});

it("rejects upstream's webhook, and warns about another webhook", () => {
  const webhooks = [
    { name: "validation-webhook.snapshot.storage.k8s.io", isUpstreams: true },
    { name: "kyverno", isUpstreams: false },
  ];
  const { findings } = planStack(request, { ...empty, webhooks });
  expect(findings.map(({ level }) => level)).toEqual(["error", "warning"]);
});

it("reports objects that violate the rules of v8, and the changed default of its controller", () => {
  const old = crds(crdNames.core, { declaredBy: "me", hasRules: false });
  expect(planStack(request, { ...empty, crds: old }).findings).toMatchObject([
    { action: expect.stringMatching(/allow-volume-mode-change=true/) as string, level: "warning" },
  ]);
  const { findings } = planStack(request, { ...empty, crds: old, breakingRules: ["volumesnapshot/default/a"] });
  expect(findings).toMatchObject([
    { message: expect.stringMatching(/: volumesnapshot\/default\/a$/) as string, level: "error" },
    { level: "warning" },
  ]);
});

it("warns about an older controller, and rejects it and older CRDs for group snapshots", () => {
  const v6 = controller({ manager: "kubectl", image: "snapshot-controller:v6.3.3" });
  const observed = { ...empty, controllers: [v6] };
  expect(planStack(request, observed)).toMatchObject({
    crds: true,
    controller: false,
    findings: [{ level: "warning" }],
  });
  const groups = { ...request, groupSnapshots: true };
  expect(planStack(groups, observed).findings).toMatchObject([{ level: "error" }]);
  const v8 = controller({ manager: "kubectl" });
  expect(planStack(groups, { ...empty, controllers: [v8] }).findings).toEqual([]);
  const alpha = crds(crdNames.group, { manager: "kubectl", served: ["v1alpha1"], stored: ["v1alpha1"] });
  const { findings } = planStack(groups, { ...empty, crds: alpha });
  expect(findings).toHaveLength(3);
  expect(findings[0]).toMatchObject({
    message: expect.stringMatching(/of kubectl serves v1alpha1, but v1 or v1beta2 is required/) as string,
    level: "error",
  });
});

it("warns about resources that it could not read", () => {
  const { findings } = planStack(request, { ...empty, unread: ["nodes"] });
  expect(findings).toMatchObject([{ code: "Forbidden", level: "warning" }]);
});

function crds(names: readonly string[], given: Partial<ObservedCrd>): ObservedCrd[] {
  const plain = {
    served: ["v1"],
    stored: ["v1"],
    hasConversionWebhook: false,
    conversionService: undefined,
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
  return findings.map(({ action }) => action).join("\n");
}
