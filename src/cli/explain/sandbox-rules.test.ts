import { describe, expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { localNodeLabels } from "../../api/names/system-names.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { printProblem } from "../../api/state/problem.ts";
import { LeaseObject } from "../../kube/lease.ts";
import { EventFacts, NodeFacts, PodFacts, type SandboxFacts } from "./facts.ts";
import { explainSandbox } from "./sandbox-rules.ts";

const now = new Date("2030-01-01T00:10:00Z");
const since = "2030-01-01T00:00:00Z";
const metadata = { name: "a", namespace: "t", uid: "s", resourceVersion: "1", creationTimestamp: since, generation: 1 };
const podMetadata = { ...metadata, uid: "p" };

function sandbox(status: object | undefined, more: { metadata?: object; spec?: object } = {}) {
  return Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { ...metadata, ...more.metadata },
    spec: { templateRef: { name: "python" }, ...more.spec },
    ...(status && { status: { observedGeneration: 1, ...status } }),
  });
}

function notReady(report: string | Problem, reason = "PodCreateFailed", phase = "Pending") {
  const problem = typeof report === "string" ? undefined : report;
  const message = typeof report === "string" ? report : printProblem(report);
  const condition = { type: "Ready", status: "False", reason, message, lastTransitionTime: since };
  const ramet = problem && { problems: { Ready: problem } };
  return sandbox({ phase, message, conditions: [condition], ...(ramet && { ramet }) });
}

function pod(status: object, spec: object = { nodeName: "n" }) {
  return { value: PodFacts.parse({ metadata: podMetadata, spec, status }) };
}

function node(ready: string, more: object = {}) {
  const condition = { type: "Ready", status: ready, reason: "R", message: "m", lastTransitionTime: since, ...more };
  return { value: NodeFacts.parse({ metadata: { ...metadata, name: "n" }, status: { conditions: [condition] } }) };
}

function lease(renewTime: string, leaseDurationSeconds = 40) {
  return { value: LeaseObject.parse({ metadata, spec: { holderIdentity: "x", renewTime, leaseDurationSeconds } }) };
}

function event(reason: string, note: string, more: object = {}) {
  const regarding = { kind: "Pod", name: "a", uid: "p", ...more };
  return EventFacts.parse({
    metadata,
    type: "Warning",
    reason,
    note,
    regarding,
    deprecatedLastTimestamp: "2030-01-01T00:09:30Z",
  });
}

const nothing = { value: undefined };
function explain(facts: Partial<SandboxFacts>) {
  const controllers = lease("2030-01-01T00:09:55Z", 15);
  const common = { now, controllers, pod: nothing, events: nothing, node: nothing, nodeLease: nothing };
  return explainSandbox({ sandbox: sandbox({ phase: "Running" }), ...common, ...facts });
}

const starting = notReady("Waiting for the Pod a to start");
const waiting = (reason: string, message = "") =>
  pod({ phase: "Pending", containerStatuses: [{ name: "main", state: { waiting: { reason, message } } }] });
const working = { node: node("True"), nodeLease: lease("2030-01-01T00:09:55Z") };

describe("a sandbox that works", () => {
  it("needs nothing", () => {
    const running = sandbox({
      phase: "Running",
      conditions: [{ type: "Ready", status: "True", reason: "PodReady", message: "", lastTransitionTime: since }],
    });
    expect(explain({ sandbox: running, pod: pod({ phase: "Running" }), ...working })).toMatchObject({
      state: "healthy",
      since,
      action: "Nothing needs to be done",
    });
  });

  it.each([
    ["Migrating", "Running", "waiting", "Its Pod is being ended (Evicted), and its state is being captured"],
    ["Migrated", "Running", "healthy", `It continued in another Pod at ${since}, after its Pod was ended (Evicted)`],
    ["Paused", "Paused", "healthy", "It is paused with its state, because its Pod was ended (Evicted)"],
    ["Paused later", "Paused", "healthy", "It is paused, as spec.paused requests"],
  ])("reports that others have ended its Pod: %s", (when, phase, state, cause) => {
    const [outcome = "", podUID = "old"] = when.split(" ");
    const ramet = { disruption: { cause: "Evicted", at: since, outcome, endedAt: since, podUID: "old" } };
    const disrupted = sandbox({ phase, ramet, podInfo: { podUID } }, { spec: { paused: phase === "Paused" } });
    const found = explain({ sandbox: disrupted, ...working });
    expect(found.state).toBe(state);
    expect(found.cause).toContain(cause);
  });

  it("says after a restore that the disk limit of its Pod had ended it, and what to do", () => {
    const problem = {
      code: "Evicted",
      cause: "It used more disk than its Pod's limit allows",
      hint: "Raise the limit",
    };
    const saved = { checkpoint: "a-auto", savedAt: since, problem };
    const ramet = { disruption: { cause: "Evicted", at: since, outcome: "Restored", endedAt: since, ...saved } };
    expect(explain({ sandbox: sandbox({ phase: "Running", ramet }), ...working }).cause).toContain(
      `(checkpoint a-auto; later work is lost), after its Pod was ended (Evicted). It used more disk than its Pod's limit allows; raise the limit`,
    );
  });

  it("is degraded on a node that leaves if no other one takes it, or until its capture is repeated", () => {
    const of = (ramet: object) => explain({ sandbox: sandbox({ phase: "Running", ramet }), ...working });
    const stays = of({ noTarget: { cause: "NodeCordoned", at: since, message: "No other node exists" } });
    expect(stays).toMatchObject({
      state: "degraded",
      cause: "Its node leaves (NodeCordoned), and no other one takes it: No other node exists",
    });
    const noTarget = { cause: "Evicted", at: since, message: "No other node exists", retryAt: "2999-01-01T00:00:00Z" };
    const ramet = { noTarget, disruption: { cause: "Evicted", at: since, outcome: "Migrating" } };
    expect(explain({ sandbox: sandbox({ phase: "Paused", ramet }), ...working })).toMatchObject({
      state: "stuck",
      reason: "NoTarget",
      cause: "Its Pod was ended (Evicted), and no other node takes it: No other node exists",
    });
    const problem = { code: "StoreFull", cause: "the store is full", hint: "Delete checkpoints" };
    const failed = (retryAt: string) =>
      of({
        disruption: {
          cause: "NodeCordoned",
          at: since,
          outcome: "Withdrawn",
          endedAt: since,
          problem: { ...problem, retryAt },
        },
      });
    expect(failed("2999-01-01T00:00:00Z")).toMatchObject({
      state: "degraded",
      cause: "Its node leaves, and it could not be captured: the store is full",
      action: "Delete checkpoints",
    });
    expect(failed(since).state).toBe("healthy");
  });

  it("is degraded if a request was not carried out", () => {
    const problem = { code: "InvalidArgument", cause: "The rule x is no address", hint: "Correct the rule" };
    const message = printProblem(problem);
    const ramet = { problems: { EgressApplied: problem } };
    const conditions = [
      { type: "Ready", status: "True", reason: "PodReady", message: "", lastTransitionTime: since },
      { type: "EgressApplied", status: "False", reason: "InvalidArgument", message, lastTransitionTime: since },
    ];
    expect(explain({ sandbox: sandbox({ phase: "Running", conditions, ramet }) })).toMatchObject({
      state: "degraded",
      cause: "It runs, but EgressApplied is False: The rule x is no address",
      action: "Correct the rule",
    });
  });

  const condition = (type: string, reason: string, message: string, status = "False") => {
    return { type, status, reason, message, lastTransitionTime: since };
  };
  const ready = condition("Ready", "PodReady", "", "True");
  const image = condition("ImageResolved", "Forbidden", "The image is not pinned: the registry is private");

  it("is degraded by the condition that matters, not by the first that is False", () => {
    const failure = {
      code: "StoreFull",
      cause: "The checkpoint a-pause failed: no space left",
      hint: "Delete checkpoints",
    };
    const conditions = [
      ready,
      image,
      condition("MemoryLoaded", "EngineFailed", "page 7"),
      condition("SandboxPaused", "CheckpointFailed", "The checkpoint a-pause failed"),
    ];
    const status = { phase: "Running", conditions, ramet: { problems: { SandboxPaused: failure } } };
    expect(explain({ sandbox: sandbox(status, { spec: { paused: true } }) })).toMatchObject({
      state: "degraded",
      cause: "It runs, because its pause failed: The checkpoint a-pause failed: no space left",
      reason: "StoreFull",
      retry: "None: a failed pause is not repeated",
      action: "Delete checkpoints, then run: ramet sandbox resume a -n t && ramet sandbox pause a -n t",
    });
  });

  it("is healthy with an image that only the nodes can read, and says so", () => {
    expect(explain({ sandbox: sandbox({ phase: "Running", conditions: [ready, image] }) })).toMatchObject({
      state: "healthy",
      cause: "It is Running. The image is not pinned: the registry is private",
    });
  });

  it("leaves a cell image that cannot be pulled to the administrator", () => {
    const message = 'Back-off pulling image "registry.example/cell:2": not found';
    const waiting = { reason: "ImagePullBackOff", message };
    const spec = {
      nodeName: "n",
      containers: [{ name: "main", image: "registry.example/cell:2" }],
      volumes: [{ name: "root", image: { reference: "registry.example/cell" } }],
    };
    const status = { phase: "Pending", containerStatuses: [{ name: "main", state: { waiting } }] };
    expect(
      explain({ sandbox: notReady("x", "StartContainerFailed"), pod: pod(status, spec), node: node("True") }),
    ).toMatchObject({
      cause: `The cell image registry.example/cell:2, which belongs to the installation of Ramet, cannot be pulled: ${message}`,
      action: expect.stringContaining("Let an administrator push the image") as string,
    });
  });

  it("is paused because somebody asked for it", () => {
    const paused = sandbox({ phase: "Paused" }, { spec: { paused: true } });
    expect(explain({ sandbox: paused })).toMatchObject({
      state: "healthy",
      action: expect.stringContaining("ramet sandbox resume a -n t") as string,
    });
  });
});

describe("a sandbox that no controller processes", () => {
  it.each([
    ["a silent leader", lease("2030-01-01T00:09:00Z", 15), "x has not renewed its lease for 60 s"],
    ["no leader", { value: LeaseObject.parse({ metadata, spec: { holderIdentity: "" } }) }, "released its lease"],
    ["no lease", nothing, "none has ever held the lease"],
    ["an unreadable lease", { unknown: "you are not allowed to read leases" }, "is unknown: you are not allowed"],
  ])("names %s", (_, controllers, cause) => {
    expect(explain({ sandbox: sandbox(undefined), controllers })).toMatchObject({
      state: "stuck",
      reason: "ControllerSilent",
      cause: expect.stringContaining(cause) as string,
      since,
      action: expect.stringContaining("Start the controllers") as string,
    });
  });

  it("names it also for a change that was not processed", () => {
    const old = sandbox({ phase: "Running", observedGeneration: 1 }, { metadata: { generation: 2 } });
    expect(explain({ sandbox: old }).cause).toMatch(/^No controller has processed its last change/);
  });
});

describe("a silent node", () => {
  it.each([
    [
      "a dead kubelet by its lease",
      { node: node("True"), nodeLease: lease("2030-01-01T00:08:00Z") },
      "has not reported for 120 s",
    ],
    [
      "a node whose state is unknown",
      { node: node("Unknown", { message: "Kubelet stopped posting node status." }) },
      "The node n is silent: Kubelet stopped",
    ],
    [
      "a node that is not ready",
      { node: node("False", { message: "container runtime is down" }) },
      "is not Ready: container runtime is down",
    ],
    ["a node that no longer exists", { node: nothing }, "which no longer exists"],
  ])("%s explains a start that does not end, a Ready sandbox and a deletion", (_, facts, cause) => {
    const found = { foundIn: "node/n", state: "stuck", cause: expect.stringContaining(cause) as string };
    expect(explain({ sandbox: starting, pod: pod({ phase: "Pending" }), ...facts })).toMatchObject(found);
    expect(explain({ pod: pod({ phase: "Running" }), ...facts })).toMatchObject(found);
    const deleted = sandbox({ phase: "Terminating" }, { metadata: { deletionTimestamp: since } });
    expect(explain({ sandbox: deleted, pod: pod({ phase: "Running" }), ...facts })).toMatchObject({
      ...found,
      action: expect.stringContaining("kubectl delete pod a -n t --force") as string,
    });
  });

  it("is not assumed if nodes cannot be read", () => {
    const unknown = { unknown: "you are not allowed to read nodes" };
    expect(explain({ pod: pod({ phase: "Running" }), node: unknown, nodeLease: unknown })).toMatchObject({
      state: "healthy",
    });
  });
});

describe("a Pod that is refused", () => {
  const refused = (message: string, code: "Forbidden" | "InvalidArgument" = "Forbidden", hint?: string) =>
    explain({
      sandbox: notReady({
        code,
        cause: `The Pod cannot be created: create pods t/a failed: ${message}`,
        ...(hint !== undefined && { hint }),
      }),
    });

  it("gives Pod Security's remedy, not RBAC's", () => {
    const message =
      'pods "a" is forbidden: violates PodSecurity "baseline:latest": non-default capabilities (container "main" must not include "SYS_ADMIN")';
    expect(refused(message, "Forbidden", "Let an administrator label the namespace")).toMatchObject({
      state: "stuck",
      reason: "PodSecurity",
      cause:
        'Pod Security refuses the Pod, because the namespace t enforces "baseline:latest": non-default capabilities (container "main" must not include "SYS_ADMIN")',
      action:
        "Let an administrator run: kubectl label namespace t pod-security.kubernetes.io/enforce=privileged --overwrite",
      since,
    });
  });

  it.each([
    [
      'pods "a" is forbidden: exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2',
      "ResourceQuota",
      "the Pod requests pods=1, pods=2 is used of pods=2",
      "kubectl edit resourcequota team -n t",
    ],
    [
      'pods "a" is forbidden: exceeded quota: team, requested: cpu=1500m, used: cpu=2.5, limited: cpu=3.5',
      "ResourceQuota",
      "cpu=2.5 is used of cpu=3.5",
      "raise the quota",
    ],
    [
      'pods "a" is forbidden: failed quota: team: must specify limits.cpu for: main',
      "ResourceQuota",
      "requires each container to set limits.cpu",
      "Set limits.cpu",
    ],
    [
      'pods "a" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi',
      "LimitRange",
      "128Mi of memory",
      "ramet.dev/cell-overhead=none",
    ],
    [
      "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'no-root' with binding 'b' denied request: root is forbidden",
      "AdmissionPolicy",
      "no-root refuses the Pod: root is forbidden",
      "no-root",
    ],
    [
      'admission webhook "w.example.org" denied the request: no',
      "AdmissionWebhook",
      "w.example.org refuses the Pod: no",
      "w.example.org",
    ],
    [
      'Internal error occurred: failed calling webhook "w.example.org": no endpoints available',
      "AdmissionWebhook",
      "cannot be called: no endpoints",
      "Repair the service",
    ],
    [
      'pods "a" is forbidden: unable to create new content in namespace t because it is being terminated',
      "NamespaceTerminating",
      "is being deleted",
      "another namespace",
    ],
    [
      'pods "a" is forbidden: error looking up service account t/x: serviceaccount "x" not found',
      "ServiceAccountMissing",
      "x does not exist",
      "kubectl create serviceaccount x -n t",
    ],
    [
      'pods "a" is forbidden: no PriorityClass with name high was found',
      "PriorityClassMissing",
      "high does not exist",
      "priorityClassName",
    ],
    [
      'pods is forbidden: User "system:serviceaccount:r:c" cannot create resource "pods" in API group "" in the namespace "t"',
      "Forbidden",
      "not allowed to create Pods",
      "ClusterRoles",
    ],
  ])("recognizes %s", (message, reason, cause, action) => {
    expect(refused(message)).toMatchObject({
      reason,
      cause: expect.stringContaining(cause) as string,
      action: expect.stringContaining(action) as string,
    });
  });
});

describe("a Pod that does not start", () => {
  it.each([
    ["manifest unknown", "Correct the image in the template"],
    [
      "a does not exist, and pulling it failed: dial tcp: lookup a: no such host. Build it with: ramet local image build a",
      "Run the command that the cause names",
    ],
    [
      "a does not exist, and pulling it failed: manifest unknown. Add it with: ramet local image add a PATH",
      "Correct the image in the template",
    ],
    ["failed to authorize: 401 Unauthorized", "add imagePullSecrets"],
    ["dial tcp: lookup registry.example.org: no such host", "Give the nodes access to the registry"],
    ["tls: failed to verify certificate: x509: certificate signed by unknown authority", "certificate authority"],
    ["toomanyrequests: You have reached your pull rate limit", "mirror"],
    ["no match for platform in manifest: not found", "architecture"],
  ])("because its image cannot be pulled (%s)", (words, action) => {
    const message = `Back-off pulling image "r/x:1": ErrImagePull: failed to pull and unpack image "r/x:1": ${words}`;
    const spec = { nodeName: "n", volumes: [{ name: "root", image: { reference: "r/x:1" } }] };
    const state = { waiting: { reason: "ImagePullBackOff", message } };
    const stuck = pod({ phase: "Pending", containerStatuses: [{ name: "main", image: "cell:1", state }] }, spec);
    expect(explain({ sandbox: starting, pod: stuck, ...working })).toMatchObject({
      cause: `The image r/x:1 cannot be pulled: ${message}`,
      reason: "ImagePullBackOff",
      foundIn: "pod/a",
      retry: expect.stringContaining("at most 5 minutes") as string,
      action: expect.stringContaining(action) as string,
    });
  });

  it.each([
    ['secret "key" not found', "Create the Secret key"],
    ["couldn't find key token in Secret t/key", "Add the key token to the Secret t/key"],
  ])("because of an object that its containers need (%s)", (message, action) => {
    const facts = { sandbox: starting, pod: waiting("CreateContainerConfigError", message), ...working };
    expect(explain(facts).action).toContain(action);
  });

  it("because a sidecar crashes", () => {
    const lastState = { terminated: { exitCode: 3, message: "no config" } };
    const crashing = { name: "side", restartCount: 4, state: { waiting: { reason: "CrashLoopBackOff" } }, lastState };
    const stuck = pod({ phase: "Running", containerStatuses: [{ name: "main", ready: true }, crashing] });
    expect(explain({ sandbox: starting, pod: stuck, ...working })).toMatchObject({
      cause: "The container side ends again and again (4 restarts): it ended with exit code 3: no config",
      action: expect.stringContaining("kubectl logs a -n t -c side --previous") as string,
    });
  });

  it.each([
    ["FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "key" not found', "Create the Secret key"],
    ["FailedCreatePodSandBox", "runtime handler does not support user namespaces", "user namespaces"],
    ["FailedCreatePodSandBox", 'plugin type="bridge" failed (add): cni plugin not initialized', "CNI"],
  ])("because the node cannot prepare it (%s: %s)", (reason, note, action) => {
    const events = { value: [event(reason, note)] };
    expect(explain({ sandbox: starting, pod: waiting("ContainerCreating"), events, ...working })).toMatchObject({
      state: "stuck",
      reason,
      action: expect.stringContaining(action) as string,
    });
  });

  it.each([
    ["0/3 nodes are available: 3 Insufficient cpu.", "Lower the requests"],
    ["0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "Provide a PersistentVolume"],
    ["0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.", "Label a node"],
    ["0/2 nodes are available: 2 node(s) had untolerated taint {a: b}.", "Add a toleration"],
    ["0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.", "not Ready"],
  ])("because no node takes it (%s)", (message, action) => {
    const condition = {
      type: "PodScheduled",
      status: "False",
      reason: "Unschedulable",
      message,
      lastTransitionTime: since,
    };
    const unbound = pod({ phase: "Pending", conditions: [condition] }, {});
    expect(explain({ sandbox: starting, pod: unbound })).toMatchObject({
      reason: "Unschedulable",
      since,
      action: expect.stringContaining(action) as string,
    });
  });

  it("because no scheduler has processed it", () => {
    expect(explain({ sandbox: starting, pod: pod({ phase: "Pending" }, {}) }).reason).toBe("SchedulerSilent");
  });
});

describe("a sandbox that runs and is not ready", () => {
  const unready = notReady(
    "The Pod is not Ready: containers with unready status: [main]",
    "SandboxNotReady",
    "Running",
  );
  const spec = { nodeName: "n", containers: [{ name: "main", image: "i", readinessProbe: { periodSeconds: 7 } }] };
  const condition = {
    type: "Ready",
    status: "False",
    reason: "ContainersNotReady",
    message: "containers with unready status: [main]",
    lastTransitionTime: since,
  };
  const running = pod(
    { phase: "Running", conditions: [condition], containerStatuses: [{ name: "main", ready: false }] },
    spec,
  );

  it("names the failing probe of a kubelet", () => {
    const fieldPath = "spec.containers{main}";
    const events = {
      value: [event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503", { fieldPath })],
    };
    expect(explain({ sandbox: unready, pod: running, events, ...working })).toMatchObject({
      state: "stuck",
      cause: "The readiness probe of the container main fails: HTTP probe failed with statuscode: 503",
      since,
      retry: "The node probes again every 7 seconds",
      foundIn: "pod/a",
    });
  });

  it.each([
    "HTTP probe failed with statuscode: 503",
    'Get "http://10.0.0.1:49980/tcpz/8000": context deadline exceeded',
  ])("names the port of a tcpSocket probe, which the cell answers, after %s", (why) => {
    const readinessProbe = { httpGet: { path: "/tcpz/8000", port: 49980 } };
    const probed = pod(running.value.status, { ...spec, containers: [{ name: "main", image: "i", readinessProbe }] });
    const events = {
      value: [event("Unhealthy", `Readiness probe failed: ${why}`, { fieldPath: "spec.containers{main}" })],
    };
    expect(explain({ sandbox: unready, pod: probed, events, ...working }).cause).toBe(
      "The readiness probe of the container main fails: port 8000 does not accept connections",
    );
  });

  it.each([
    ["without an entrypoint", {}, true],
    ["with a command", { cmd: ["python3"] }, false],
  ])("names a missing entrypoint as the cause of a failing probe: an image %s", (_, image, isMissing) => {
    const env = [
      { name: "RAMET_CELL", value: JSON.stringify({ start: "boot", container: { command: [], args: [] } }) },
      { name: "RAMET_IMAGE_CONFIG", value: JSON.stringify(image) },
    ];
    const probed = pod(running.value.status, { ...spec, containers: [{ name: "main", image: "i", env }] });
    const events = {
      value: [event("Unhealthy", "Startup probe failed: HTTP status 500", { fieldPath: "spec.containers{main}" })],
    };
    const found = explain({ sandbox: unready, pod: probed, events, ...working });
    expect(found.cause.includes("its image has no entrypoint")).toBe(isMissing);
    expect(found.action.startsWith("Set command in the template")).toBe(isMissing);
  });

  it("names the failing probe of the local node", () => {
    const message = "the startup probe failed: HTTP status 500";
    const conditions = [{ ...condition, message }];
    const here = pod({ phase: "Running", conditions, containerStatuses: [{ name: "main", ready: false }] }, spec);
    const local = NodeFacts.parse({ metadata: { ...metadata, name: "n", labels: localNodeLabels }, status: {} });
    expect(explain({ sandbox: unready, pod: here, ...working, node: { value: local } }).cause).toBe(
      "The container main is not ready: the startup probe failed: HTTP status 500",
    );
  });
});

describe("a sandbox that has ended", () => {
  it("uses the remedy that the controllers reported", () => {
    const problem = { code: "NeedNotMet", cause: "The checkpoint c needs the engine e", hint: "Install the engine e" };
    expect(explain({ sandbox: notReady(problem, "NeedNotMet", "Failed") })).toMatchObject({
      state: "failed",
      cause: "The checkpoint c needs the engine e",
      reason: "NeedNotMet",
      action: "Install the engine e",
    });
  });

  it("else uses the remedy of the error code or of the node's reason", () => {
    expect(explain({ sandbox: notReady("The cell exited", "OutOfMemory", "Failed") }).action).toContain(
      "Raise the memory limit",
    );
    expect(explain({ sandbox: notReady("The cell exited with code 137", "OOMKilled", "Failed") }).action).toContain(
      "memory limit",
    );
    expect(explain({ sandbox: notReady("?", "PodFailed", "Failed") }).action).toContain("kubectl logs a -n t");
  });

  it("proposes to clone the checkpoint that stopped the sandbox", () => {
    const object = { kind: "Checkpoint", name: "b-1" };
    const stopped = { code: "PodCompleted", cause: "The cell exited with code 0", object };
    const explanation = explain({ sandbox: notReady(stopped, "PodCompleted", "Succeeded") });
    expect(explanation.cause).toBe("It was stopped by the checkpoint b-1 (keepRunning is false)");
    expect(explanation.action).toBe("Clone the checkpoint, or delete the sandbox: ramet sandbox rm a -n t");
  });

  it("proposes a command that keeps running to a template whose entrypoint ends", () => {
    expect(
      explain({ sandbox: notReady("The entrypoint ended with exit code 0", "PodCompleted", "Succeeded") }).action,
    ).toContain("sleep infinity");
  });
});

describe("a sandbox that waits for what does not exist", () => {
  it("names it with the controllers' remedy", () => {
    const cause = "The SandboxTemplate x does not exist in the namespace t";
    expect(explain({ sandbox: notReady({ code: "NotFound", cause, hint: "Create it" }) })).toMatchObject({
      state: "stuck",
      reason: "NotFound",
      action: "Create it",
    });
  });

  it("is waiting at first and stuck after a minute", () => {
    expect(explain({ sandbox: starting }).state).toBe("stuck");
    expect(explain({ sandbox: starting, now: new Date("2030-01-01T00:00:30Z") }).state).toBe("waiting");
  });

  it("is in deletion until other controllers remove their finalizers", () => {
    const deletion = { deletionTimestamp: since, finalizers: ["agents.kruise.io/sandbox", "example.org/x"] };
    expect(explain({ sandbox: sandbox({ phase: "Terminating" }, { metadata: deletion }) })).toMatchObject({
      state: "stuck",
      cause: "Its deletion waits for the finalizers of other controllers: example.org/x",
    });
  });
});
