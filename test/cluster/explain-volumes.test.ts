import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { KubeObject } from "../../src/kube/object.ts";
import { error, handle, VolumeScene } from "./volume-scene.ts";
import { VolumeWorld } from "./volume-world.ts";

let world: VolumeWorld;
beforeAll(async () => {
  world = await VolumeWorld.start();
});
afterAll(() => world.stop());

/** A complaint of users, as reference pages and issues of external-snapshotter and of drivers describe it. */
interface Complaint {
  complaint: string;
  /** Plays what the controllers write. @returns what `ramet explain` explains, or the flags of `ramet doctor` */
  play: (scene: VolumeScene) => Promise<string | string[]>;
  /** The check of `ramet doctor`, for a complaint about the whole cluster. */
  check?: string;
  /** By how many seconds later the user asks. */
  later?: number;
  /** The fields of the explanation. */
  found: object;
}

const groupClasses = "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io";
const ofProvisioner = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";
const containing = (text: string) => expect.stringContaining(text) as string;

const failedToTake = (why: string) =>
  `Failed to check and update snapshot content: failed to take snapshot of the volume vol-1: "rpc error: ${why}"`;

/** A snapshot whose sidecar recorded an error, which the snapshot-controller copied. */
async function failing(scene: VolumeScene, message: string, event: { count?: number; seconds?: number } = {}) {
  await scene.boundClaim("data");
  const snapshot = await scene.snapshot("a");
  const content = await scene.content(snapshot, { status: { readyToUse: false, ...error(message) } });
  const reason = "SnapshotContentCheckandUpdateFailed";
  await scene.world.event(content, { reason, message, ...event });
  await scene.bind(snapshot, error(message));
  return "vs/a";
}

const fromSnapshot = { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name: "a" };

/** A claim that restores the snapshot `a`, and what its provisioner reports. */
async function restoring(scene: VolumeScene, spec: object = {}, why?: string): Promise<void> {
  const claim = await scene.claim("restored", { dataSource: fromSnapshot, ...spec });
  if (why === undefined) return;
  const prefix = `failed to provision volume with StorageClass "${scene.namespace}-storage": error getting handle for DataSource Type VolumeSnapshot by Name a: `;
  await scene.world.event(claim, { reason: "ProvisioningFailed", message: prefix + why });
}

async function readySnapshot(scene: VolumeScene, status: object = {}, content: object = {}): Promise<KubeObject> {
  const snapshot = await scene.snapshot("a");
  await scene.content(snapshot, { status: { readyToUse: true, ...handle }, spec: content });
  await scene.bind(snapshot, {
    readyToUse: true,
    creationTime: new Date().toISOString(),
    restoreSize: "1Gi",
    ...status,
  });
  return snapshot;
}

const complaints: readonly Complaint[] = [
  {
    complaint: "it stays unready without an error, as no sidecar runs",
    play: async (scene) => {
      await scene.boundClaim("data");
      const snapshot = await scene.snapshot("a");
      await scene.content(snapshot);
      const message = `Waiting for a snapshot ${scene.namespace}/a to be created by the CSI driver.`;
      await scene.world.event(snapshot, { reason: "CreatingSnapshot", message, type: "Normal" });
      await scene.bind(snapshot);
      return "volumesnapshot/a";
    },
    later: 60,
    found: {
      phase: "Pending",
      reason: "SidecarSilent",
      state: "stuck",
      cause: containing(
        "No sidecar of the driver ebs.csi.aws.com has processed it; the cluster has no CSIDriver ebs.csi.aws.com; no process has the Lease external-snapshotter-leader-ebs-csi-aws-com",
      ),
      action: containing("Run csi-snapshotter"),
      lastEvent: { reason: "CreatingSnapshot" },
    },
  },
  {
    complaint: "it has no content at all",
    play: async (scene) => {
      await scene.boundClaim("data");
      await scene.snapshot("a", undefined, { finalizers: [] });
      return "vs/a";
    },
    later: 60,
    found: {
      phase: "Pending",
      reason: "SnapshotControllerSilent",
      state: "stuck",
      cause: containing("no content, no status and no Event; no process has the Lease snapshot-controller-leader"),
      action: containing("Start the snapshot-controller"),
    },
  },
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
  {
    complaint: "an error is shown although the snapshot is complete",
    play: async (scene) => {
      await readySnapshot(scene, {
        readyToUse: false,
        ...error(failedToTake("code = DeadlineExceeded desc = context deadline exceeded")),
      });
      return "vs/a";
    },
    found: {
      reason: "StatusLag",
      state: "waiting",
      cause: containing("its content snapcontent-"),
      retry: containing("within 15 minutes"),
      action: containing("kubectl annotate volumesnapshot a -n "),
    },
  },
  {
    complaint: "too many snapshots of one volume, and no pauses between them",
    play: (scene) =>
      failing(
        scene,
        failedToTake(
          "code = Internal desc = Could not create snapshot: SnapshotCreationPerVolumeRateExceeded: The maximum per volume CreateSnapshot request rate has been exceeded. Use an increasing or variable sleep interval between requests.",
        ),
        { count: 40, seconds: 20 },
      ),
    found: {
      phase: "Failing",
      reason: "CaptureRateExceeded",
      state: "stuck",
      cause: containing("repeats the call without pauses (40 times)"),
      action: containing("Upgrade csi-snapshotter of the driver ebs.csi.aws.com to 8.0"),
    },
  },
  {
    complaint: "the cloud throttles the driver",
    play: (scene) =>
      failing(
        scene,
        failedToTake(
          "code = Internal desc = Retriable: true, RetryAfter: 3590s, HTTPStatusCode: 0, RawError: azure cloud provider throttled for operation SnapshotCreateOrUpdate with reason client throttled",
        ),
      ),
    found: {
      phase: "Failing",
      reason: "CloudThrottled",
      state: "waiting",
      cause: containing("The cloud throttles the driver for 3590 s"),
      action: containing("start fewer at a time"),
    },
  },
  {
    complaint: "the driver has several default classes",
    play: async (scene) => {
      await scene.boundClaim("data");
      await scene.snapshotClass({ suffix: "1", isDefault: true });
      await scene.snapshotClass({ suffix: "2", isDefault: true });
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [] });
      const message = "Failed to set default snapshot class with error 2 default snapshot classes were found";
      await scene.world.event(snapshot, { reason: "SetDefaultSnapshotClassFailed", message });
      await scene.report(snapshot, error(message));
      return "vs/a";
    },
    found: {
      phase: "BlockedByClass",
      reason: "SeveralDefaultClasses",
      state: "stuck",
      cause: expect.stringMatching(
        /^The driver ebs.csi.aws.com has 2 default VolumeSnapshotClasses: t\d+-1, t\d+-2$/,
      ) as string,
      action: containing("kubectl annotate volumesnapshotclass"),
    },
  },
  {
    complaint: "the driver has no default class",
    play: async (scene) => {
      await scene.boundClaim("data");
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [] });
      const message = "Failed to set default snapshot class with error cannot find default snapshot class";
      await scene.world.event(snapshot, { reason: "SetDefaultSnapshotClassFailed", message });
      await scene.report(snapshot, error(message));
      return "vs/a";
    },
    found: {
      phase: "BlockedByClass",
      reason: "NoDefaultClass",
      state: "stuck",
      cause: containing("the driver ebs.csi.aws.com has no default one"),
      action: containing("Set spec.volumeSnapshotClassName"),
    },
  },
  {
    complaint: "a deleted snapshot and the claim that restores it wait for each other",
    play: async (scene) => {
      const snapshot = await readySnapshot(scene);
      await scene.remove(snapshot);
      await restoring(scene, {}, "snapshot a is being deleted");
      const message = "Snapshot is being used to restore a PVC";
      await scene.world.event(snapshot, { reason: "SnapshotDeletePending", message });
      return "vs/a";
    },
    found: {
      phase: "DeleteBlocked",
      reason: "RestoreDeadlock",
      state: "stuck",
      cause: containing("waits for the PersistentVolumeClaim restored"),
      action: containing("kubectl delete pvc restored"),
      lastEvent: { reason: "SnapshotDeletePending" },
    },
  },
  {
    complaint: "external-provisioner 6.2 left its finalizer behind",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [ofProvisioner] });
      await scene.content(snapshot, { status: { readyToUse: true, ...handle } });
      await scene.bind(snapshot, { readyToUse: true });
      await scene.claim("restored", { dataSource: fromSnapshot }, { phase: "Bound" });
      await scene.remove(snapshot);
      return "vs/a";
    },
    later: 600,
    found: {
      phase: "DeleteBlocked",
      reason: "OrphanedFinalizer",
      state: "stuck",
      cause: containing(ofProvisioner),
      action: containing("--remove-orphaned-finalizer"),
    },
  },
  {
    complaint: "a content hangs, as its snapshot vanished before it",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [] });
      const content = await scene.content(snapshot, { status: { readyToUse: true, ...handle } });
      await scene.remove(snapshot);
      await scene.remove(content);
      return `vsc/${content.metadata.name}`;
    },
    later: 120,
    found: {
      phase: "DeleteBlocked",
      reason: "SnapshotVanishedFirst",
      state: "stuck",
      cause: containing("Its VolumeSnapshot a in namespace"),
      retry: containing("None"),
      action: containing("volumesnapshot-being-deleted=yes"),
    },
  },
  {
    complaint: "a claim cannot be deleted, as a snapshot of it is not ready",
    play: async (scene) => {
      const claim = await scene.boundClaim("data", {
        finalizers: ["snapshot.storage.kubernetes.io/pvc-as-source-protection"],
      });
      const snapshot = await scene.snapshot("slow");
      await scene.content(snapshot);
      await scene.bind(snapshot);
      await scene.remove(claim);
      return "pvc/data";
    },
    later: 120,
    found: {
      phase: "DeleteBlocked",
      reason: "SnapshotsNotReady",
      state: "stuck",
      cause: containing("slow"),
      action: containing("ramet explain volumesnapshot/slow"),
      foundIn: "volumesnapshot/slow",
    },
  },
  {
    complaint: "a deletion during a slow creation never happens",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a");
      const content = await scene.content(snapshot, {
        annotations: { "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted": "yes" },
        status: { readyToUse: true, ...handle },
      });
      await scene.bind(snapshot, { readyToUse: true });
      await scene.remove(snapshot);
      await scene.remove(content);
      return "vs/a";
    },
    later: 900,
    found: {
      phase: "DeleteBlocked",
      reason: "DeletionForgotten",
      state: "stuck",
      cause: containing("has no call for it"),
      action: containing("restart the sidecar"),
      foundIn: containing("volumesnapshotcontent/snapcontent-"),
    },
  },
  {
    complaint: "a restore may leave a volume in the storage",
    play: async (scene) => {
      const snapshot = await readySnapshot(scene);
      const claim = await scene.claim(
        "restored",
        { dataSource: fromSnapshot },
        { finalizers: ["kubernetes.io/pvc-protection"] },
      );
      const provisioning = `External provisioner is provisioning volume for claim "${scene.namespace}/restored"`;
      await scene.world.event(claim, { reason: "Provisioning", message: provisioning, type: "Normal" });
      await scene.remove(snapshot);
      await scene.remove(claim);
      return "pvc/restored";
    },
    found: {
      reason: "VolumeMayLeak",
      state: "stuck",
      cause: containing("the VolumeSnapshot a"),
      action: expect.stringMatching(/the volume pvc-[0-9a-f-]{36}, .*external-provisioner 6\.2/) as string,
    },
  },
  {
    complaint: "a content stays after its snapshot",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [] });
      const content = await scene.content(snapshot, {
        spec: { deletionPolicy: "Retain" },
        status: { readyToUse: true, ...handle },
      });
      await scene.remove(snapshot);
      return `vsc/${content.metadata.name}`;
    },
    found: {
      phase: "Ready",
      reason: "OrphanedContent",
      state: "degraded",
      cause: containing(`the snapshot ${handle.snapshotHandle} stays in the storage`),
      action: containing("Adopt the snapshot"),
    },
  },
  {
    complaint: "the class was deleted first",
    play: async (scene) => {
      await scene.boundClaim("data");
      const name = `${scene.namespace}-gone`;
      const snapshot = await scene.snapshot("a", {
        source: { persistentVolumeClaimName: "data" },
        volumeSnapshotClassName: name,
      });
      const message = `Failed to get snapshot class with error failed to retrieve snapshot class ${name} from the informer: "volumesnapshotclass.snapshot.storage.k8s.io \\"${name}\\" not found"`;
      await scene.world.event(snapshot, { reason: "GetSnapshotClassFailed", message });
      await scene.report(snapshot, error(message));
      return "vs/a";
    },
    found: {
      phase: "BlockedByClass",
      reason: "SnapshotClassMissing",
      state: "stuck",
      cause: expect.stringMatching(/^Its VolumeSnapshotClass t\d+-gone does not exist$/) as string,
      action: containing("again"),
    },
  },
  {
    complaint: "a quota of the namespace stops the members of a group",
    play: async (scene) => {
      const group = await scene.group("g");
      const message = `failed to sync group snapshot: createIndividualSnapshotForGroupSnapshot: error creating or fetching volumesnapshot volumesnapshots.snapshot.storage.k8s.io "snapshot-1" is forbidden: exceeded quota: few, requested: count/volumesnapshots.snapshot.storage.k8s.io=1, used: count/volumesnapshots.snapshot.storage.k8s.io=5, limited: count/volumesnapshots.snapshot.storage.k8s.io=5`;
      await scene.reportOfGroup(group, error(message));
      return "vgs/g";
    },
    found: {
      phase: "Failing",
      reason: "QuotaExceeded",
      state: "stuck",
      cause: containing("The ResourceQuota few allows count/volumesnapshots.snapshot.storage.k8s.io=5"),
      action: containing("kubectl describe resourcequota few"),
    },
  },
  {
    complaint: "a quota of the cloud is used up",
    play: (scene) =>
      failing(
        scene,
        failedToTake(
          "code = ResourceExhausted desc = failed to create snapshot: googleapi: Error 403: QUOTA_EXCEEDED - Quota 'SNAPSHOTS' exceeded.  Limit: 5000.0 globally.",
        ),
      ),
    found: {
      reason: "CloudQuotaExceeded",
      state: "stuck",
      cause: containing("Limit: 5000.0"),
      action: containing("Delete snapshots"),
    },
  },
  {
    complaint: "the claim is smaller than the snapshot",
    play: async (scene) => {
      const storageClassName = await scene.storageClass();
      await readySnapshot(scene, { restoreSize: "2Gi" });
      await restoring(
        scene,
        { storageClassName },
        "requested volume size 1073741824 is less than the size 2147483648 for the source snapshot a",
      );
      return "pvc/restored";
    },
    found: {
      phase: "Pending",
      reason: "SizeTooSmall",
      state: "stuck",
      cause: "It requests 1Gi, and the snapshot a needs at least 2Gi",
      action: containing("storage: 2Gi"),
      lastEvent: { reason: "ProvisioningFailed" },
    },
  },
  {
    complaint: "the snapshot is of another driver",
    play: async (scene) => {
      const storageClassName = await scene.storageClass({ provisioner: "ebs.csi.eks.amazonaws.com" });
      await readySnapshot(scene);
      const why = `snapshotcontent snapcontent-1 for snapshot a is not handled by CSI driver of StorageClass ${storageClassName}`;
      await restoring(scene, { storageClassName }, why);
      return "pvc/restored";
    },
    found: {
      phase: "Pending",
      reason: "DifferentDriver",
      state: "stuck",
      cause: containing("is of the driver ebs.csi.aws.com, and the StorageClass"),
      action: containing("import the snapshot's handle for ebs.csi.eks.amazonaws.com"),
    },
  },
  {
    complaint: "the driver is not allowed to, since its policy changed",
    play: (scene) =>
      failing(
        scene,
        failedToTake(
          "code = Internal desc = Could not create snapshot: operation error EC2: CreateSnapshot, https response error StatusCode: 403, api error UnauthorizedOperation: You are not authorized to perform this operation. Encoded authorization failure message: " +
            "x".repeat(2_000),
        ),
      ),
    found: {
      phase: "Failing",
      reason: "StorageForbidden",
      state: "stuck",
      cause: containing("UnauthorizedOperation"),
      action: containing("ebs.csi.aws.com/cluster=true"),
    },
  },
  {
    complaint: "containerd no longer restores checkpoint images",
    play: async (scene) => {
      await scene.waitingSandbox(
        "s",
        "CreateContainerError",
        "failed to create containerd container: checkpoint restore via CreateContainer is disabled by configuration",
      );
      return "sandbox/s";
    },
    found: {
      reason: "CreateContainerError",
      state: "stuck",
      cause: containing("disabled by configuration"),
      action: containing("Create the sandbox from a Checkpoint of Ramet"),
      foundIn: "pod/s",
    },
  },
  {
    complaint: "the storage keeps snapshots that nothing knows",
    check: "snapshot-leaks",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a");
      await scene.content(snapshot, { status: { readyToUse: true, ...handle, snapshotHandle: "snap-known" } });
      const fresh = new Date().toISOString();
      return [
        "--snapshot-handles",
        await scene.world.file(`snap-known\nsnap-lost 2020-01-01T00:00:00Z\nsnap-new ${fresh}\n`),
      ];
    },
    found: { message: containing("snapshots of the list: snap-lost"), action: containing("carry the tag") },
  },
  {
    complaint: "orphaned contents pile up",
    check: "snapshot-contents",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [] });
      await scene.content(snapshot, { spec: { deletionPolicy: "Retain" }, status: { readyToUse: true, ...handle } });
      await scene.remove(snapshot);
      await scene.snapshot("a");
      return [];
    },
    found: {
      message: containing("no VolumeSnapshot, and their snapshots cost money"),
      action: containing("ramet explain"),
    },
  },
  {
    complaint: "the CRDs of groups cannot be upgraded",
    check: "snapshot-crds",
    play: async (scene) => {
      await scene.world.changeCrd(groupClasses, (crd) => {
        const [version] = crd.spec.versions;
        crd.spec.versions.forEach((one) => (one.storage = false));
        return { ...crd.spec, versions: [...crd.spec.versions, { ...version, name: "v1alpha1", storage: true }] };
      });
      return [];
    },
    found: { message: containing("may be stored as v1alpha1"), action: containing("delete the three CRDs") },
  },
  {
    complaint: "the conversion webhook of groups has no server",
    check: "snapshot-crds",
    play: async (scene) => {
      const service = { namespace: "kube-system", name: "snapshot-conversion-webhook-service", path: "/convert" };
      const webhook = { clientConfig: { service }, conversionReviewVersions: ["v1"] };
      await scene.world.changeCrd("volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io", ({ spec }) => ({
        ...spec,
        conversion: { strategy: "Webhook", webhook },
      }));
      return [];
    },
    found: {
      message: containing("calls the service kube-system/snapshot-conversion-webhook-service, which does not exist"),
      action: containing('"strategy":"None"'),
    },
  },
  {
    complaint: "the snapshot-controller crashes at scale",
    check: "snapshot-controller",
    play: async (scene) => {
      await scene.controllerPod({ image: "registry.example/sig-storage/snapshot-controller:v8.0.1", restarts: 12 });
      return [];
    },
    found: {
      message: containing("v8.0.1"),
      action: containing("Upgrade external-snapshotter to 8.2 or later, then give it more memory"),
    },
  },
  {
    complaint: "a quota refuses snapshots",
    check: "snapshot-quota",
    play: async (scene) => {
      await scene.fullQuota("few");
      // The API server knows a quota some moments after it was written.
      let count = 0;
      const refusal = () => scene.snapshot(`a${(count += 1)}`).then(() => "", String);
      await expect.poll(refusal).toContain("exceeded quota: few");
      return [];
    },
    found: {
      message: containing("few (count/volumesnapshots.snapshot.storage.k8s.io: 5 of 5)"),
      action: containing("kubectl describe resourcequota -n t"),
    },
  },
];

it.each(complaints.filter(({ check }) => check === undefined))(
  "explains: $complaint",
  async ({ play, later = 0, found }) => {
    const namespace = await world.namespace();
    const object = await play(new VolumeScene(world, namespace));
    const args = ["explain", object.toString(), "-n", namespace, "-o", "json"];
    const { exitCode, stdout, stderr } = await world.ramet(args, { later });
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toMatchObject(found);
    expect(JSON.parse(stdout)).toMatchObject({ unknown: [] });
    expect(exitCode).toBe(0);
  },
);

it.each(complaints.filter(({ check }) => check !== undefined))(
  "checks the cluster: $complaint",
  async ({ play, later = 0, check, found }) => {
    const namespace = await world.namespace();
    const flags = await play(new VolumeScene(world, namespace));
    const args = ["doctor", "-n", namespace, "--timeout", "20s", "-o", "json"].concat(flags);
    const { stdout } = await world.ramet(args, { later });
    const { findings } = JSON.parse(stdout) as { findings: { check: string }[] };
    expect(findings.find((one) => one.check === check)).toMatchObject({ level: "warning", ...found });
  },
);

describe("--remove-orphaned-finalizer", () => {
  const remove = (scene: VolumeScene, ...more: string[]) =>
    scene.world.ramet(["explain", "vs/a", "--remove-orphaned-finalizer", "-n", scene.namespace, ...more]);

  async function deletedSnapshot(): Promise<VolumeScene> {
    const scene = new VolumeScene(world, await world.namespace());
    const snapshot = await scene.snapshot("a", undefined, { finalizers: [ofProvisioner, "example.com/other"] });
    await scene.remove(snapshot);
    return scene;
  }

  it("removes it when no claim restores the snapshot, and says what it did", async () => {
    const scene = await deletedSnapshot();
    await scene.claim("done", { dataSource: fromSnapshot }, { phase: "Bound" });
    const { exitCode, stdout } = await remove(scene, "-o", "json");
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ object: "volumesnapshot/a", removed: ofProvisioner });
    expect(await scene.finalizers("a")).toEqual(["example.com/other"]);
    expect((await remove(scene)).stderr).toContain("does not have the finalizer");
  });

  it("refuses while a claim is restoring it", async () => {
    const scene = await deletedSnapshot();
    await restoring(scene);
    const { exitCode, stderr } = await remove(scene);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`may be being restored by ${scene.namespace}/restored`);
    expect(stderr).toContain("[Conflict]");
    expect(await scene.finalizers("a")).toEqual([ofProvisioner, "example.com/other"]);
  });

  it("refuses for a snapshot that is not being deleted, for users who may not see all claims, and for other objects", async () => {
    const scene = new VolumeScene(world, await world.namespace());
    await scene.snapshot("a", undefined, { finalizers: [ofProvisioner] });
    expect((await remove(scene)).stderr).toContain("is not being deleted");
    const rule = { apiGroups: ["snapshot.storage.k8s.io", ""], resources: ["*"], verbs: ["*"] };
    const deleted = await deletedSnapshot();
    const kubeconfig = await world.userOf(deleted.namespace, [rule]);
    const args = ["explain", "vs/a", "--remove-orphaned-finalizer", "-n", deleted.namespace];
    expect((await world.ramet(args, { kubeconfig })).stderr).toContain("[Forbidden]");
    expect(await deleted.finalizers("a")).toContain(ofProvisioner);
    expect((await world.ramet(["explain", "pvc/a", "--remove-orphaned-finalizer"])).exitCode).toBe(2);
  });
});

describe("a user of one namespace", () => {
  it("gets what the namespace shows, and what could not be read", async () => {
    const scene = new VolumeScene(world, await world.namespace());
    const rule = {
      apiGroups: ["snapshot.storage.k8s.io", "", "events.k8s.io"],
      resources: ["*"],
      verbs: ["get", "list"],
    };
    const kubeconfig = await world.userOf(scene.namespace, [rule]);
    const message = failedToTake("code = PermissionDenied desc = no");
    await failing(scene, message);
    const { stdout } = await world.ramet(["explain", "vs/a", "-n", scene.namespace, "-o", "json"], { kubeconfig });
    expect(JSON.parse(stdout)).toMatchObject({
      phase: "Failing",
      reason: "StorageForbidden",
      unknown: expect.arrayContaining(["you are not allowed to read volumesnapshotcontents"]) as string[],
    });
  });

  it("is told that the cluster has no such object", async () => {
    const { exitCode, stderr } = await world.ramet(["explain", "vs/none"]);
    expect(exitCode).toBe(3);
    expect(stderr).toContain("kubectl get volumesnapshots -n default");
  });
});

it("shows recorded texts on one line, limited and without control characters", async () => {
  const scene = new VolumeScene(world, await world.namespace());
  await failing(
    scene,
    `${failedToTake("code = Internal desc = \u001b[31mred\u202e")}\nCAUSE nothing${"x".repeat(5_000)}`,
  );
  const { stdout } = await world.ramet(["explain", "vs/a", "-n", scene.namespace]);
  expect(stdout.split("\n").every((line) => line.length < 500)).toBe(true);
  expect(stdout).toContain("^[[31mred\\u202e");
  expect(stdout.match(/^CAUSE/gm)).toHaveLength(1);
  expect(stdout).toMatch(/^LAST EVENT {2}SnapshotContentCheckandUpdateFailed, \d+s ago: /m);
});
