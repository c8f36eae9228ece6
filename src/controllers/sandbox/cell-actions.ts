import { clientEnvironment } from "../../api/pod/client-environment.ts";
import { containerSpec } from "../../api/pod/container-spec.ts";
import type { RametSandboxStatus, Sandbox } from "../../api/kinds/sandbox.ts";
import { initRequestDigest, requestedEnvironment, type RequestSeal } from "../../api/names/init-request.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { Pod } from "../../api/schema/pod.ts";
import {
  cloneParts,
  type RestoreSource,
  restorePartsInPlace,
  startsSandbox,
  untilPartsLoaded,
} from "../../backends/checkpoint-parts.ts";
import { type SandboxRef, sandboxRef, type Started } from "../../backends/runtime.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { keyOf } from "../../kube/object.ts";
import { giveFirstCredentials, setCredentials } from "./credentials.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import type { KnownCell } from "./former-pods.ts";
import type { SandboxAction } from "./state.ts";

type Action<Do extends SandboxAction["do"]> = Extract<SandboxAction, { do: Do }>;

/** Starts a call unless it is already running. Its end requeues the sandbox. The cell joins repeated calls. */
type StartCall<Do extends SandboxAction["do"]> = (
  sandbox: Sandbox,
  action: Action<Do>,
  dependencies: SandboxDependencies,
) => void;

/** The actions that call a cell. Such calls take long, so they run outside reconciles. */
const cellActions = {
  startSandbox,
  restoreSandboxInPlace,
  adoptIdentity,
  awaitMemory,
  readActivity,
  setEgress,
  setCredentials,
  intendEnd,
};

export type CellAction = Action<keyof typeof cellActions>;

export function isCellAction(action: SandboxAction): action is CellAction {
  return action.do in cellActions;
}

export function callCell(sandbox: Sandbox, action: CellAction, dependencies: SandboxDependencies): void {
  const start = cellActions[action.do] as StartCall<CellAction["do"]>;
  start(sandbox, action, dependencies);
}

function intendEnd(sandbox: Sandbox, { pod }: Action<"intendEnd">, { calls, runtime }: SandboxDependencies): void {
  const target = sandboxRef(sandbox, pod);
  calls.start(sandbox, pod, "end", (signal) => runtime.intendEnd(target, signal).then(() => undefined));
}

function awaitMemory(sandbox: Sandbox, { pod }: Action<"awaitMemory">, { calls, backends }: SandboxDependencies): void {
  const target = sandboxRef(sandbox, pod);
  calls.start(sandbox, pod, "load", (signal) => untilPartsLoaded(backends, target, signal).then(() => undefined));
}

function readActivity(
  sandbox: Sandbox,
  { pod }: Action<"readActivity">,
  { calls, runtime }: SandboxDependencies,
): void {
  const target = sandboxRef(sandbox, pod);
  calls.start(sandbox, pod, "activity", (signal) => runtime.activity(target, signal));
}

function startSandbox(
  sandbox: Sandbox,
  { pod, template, source }: Action<"startSandbox">,
  dependencies: SandboxDependencies,
): void {
  const { calls, backends, runtime, newPods, formerPods, seal, engines, nodeCpus } = dependencies;
  const { environment, initRequest } = startEnvironment(sandbox, template, seal);
  calls.start(sandbox, pod, "start", async (signal) => {
    const target = await runtime.identified(sandboxRef(sandbox, pod), signal);
    const startingPod = formerPods.starts(sandbox, target, pod.spec.nodeName);
    signal.throwIfAborted();
    await recordStart(sandbox, { startingPod, source }, dependencies);
    await giveFirstCredentials(sandbox, { target, template, signal }, dependencies);
    const started = await (source === undefined || !startsSandbox(source.parts)
      ? runtime.boot(target, environment, signal)
      : restoring(source, dependencies, cloneParts(backends, { source, target, environment, signal })).catch(
          learning(target, pod, dependencies),
        ));
    if (started.engine !== undefined) {
      await engines.learn(pod, started.engine);
      nodeCpus.learn(pod.spec.nodeName, started.engine);
    }
    const bootMilliseconds = newPods.ageMilliseconds(pod.metadata.uid);
    return {
      ...started,
      ...defined({ cellKey: target.cellKey, bootMilliseconds, checkpointId: source?.name.checkpointId, initRequest }),
    };
  });
}

/**
 * Other controllers stop this copy if its Pod is removed without the word of its node, and layers that the sandbox may use are not
 * removed. Until others can know that, the cell gets nothing.
 */
async function recordStart(
  { metadata }: Sandbox,
  { startingPod, source }: { startingPod?: KnownCell | undefined; source: RestoreSource | undefined },
  { cache, sandboxWrites, statuses }: SandboxDependencies,
): Promise<void> {
  const cached = cache.sandbox(keyOf(metadata));
  const sandbox = cached && sandboxWrites.latest(cached);
  if (sandbox?.metadata.uid !== metadata.uid)
    throw new RametError("Conflict", `The sandbox ${metadata.name} was deleted before its start`);
  const { status = {} } = sandbox;
  const added = { ...defined({ startingPod }), ...withLayersOf(source, status.ramet) };
  if (Object.keys(added).length === 0) return;
  const recorded = { ...status, ramet: { ...status.ramet, ...added } };
  try {
    await sandboxWrites.write(sandbox, () => statuses.write(sandbox, recorded));
  } catch (thrown) {
    const error = RametError.from(thrown);
    const what = `The start of the sandbox cannot be recorded: ${error.message}`;
    throw new RametError("Unavailable", what, { retryable: true, cause: error });
  }
}

/** The layers that the sandbox may have, until it is known which: those from before, and those of what is restored. */
export function withLayersOf(
  source: Pick<RestoreSource, "parts"> | undefined,
  { layers = [], layerBytes = [] }: Pick<RametSandboxStatus, "layers" | "layerBytes"> = {},
): Pick<RametSandboxStatus, "layers" | "layerBytes"> {
  const restored = source?.parts.flatMap((part) => part.layers ?? []) ?? [];
  const added = restored.filter(({ checkpointId }) => !layers.includes(checkpointId));
  if (added.length === 0) return {};
  return {
    layers: [...layers, ...added.map(({ checkpointId }) => checkpointId)],
    layerBytes: [...layers.map((_, index) => layerBytes[index] ?? 0), ...added.map(({ sizeBytes }) => sizeBytes)],
  };
}

function restoreSandboxInPlace(
  sandbox: Sandbox,
  { pod, template, source, request }: Action<"restoreSandboxInPlace">,
  dependencies: SandboxDependencies,
): void {
  const { calls, backends, runtime, seal } = dependencies;
  const { environment, initRequest } = startEnvironment(sandbox, template, seal);
  // The old wait is for memory that the restore replaces.
  calls.drop(pod, "load");
  calls.start(sandbox, pod, "restoreInPlace", async (signal) => {
    const target = await runtime.identified(sandboxRef(sandbox, pod), signal);
    await recordStart(sandbox, { source }, dependencies);
    await giveFirstCredentials(sandbox, { target, template, signal }, dependencies);
    const reportsPrograms = isOfClaim(sandbox) ? undefined : true;
    const restore = restorePartsInPlace(backends, { source, target, environment, request, reportsPrograms, signal });
    const started = await restoring(source, dependencies, restore).catch(learning(target, pod, dependencies));
    return { ...started, checkpointId: source.name.checkpointId, ...defined({ initRequest }) };
  });
}

/** Nobody has used the programs of a sandbox that is being claimed. */
function isOfClaim({ metadata: { annotations: all = {} } }: Sandbox): boolean {
  const lock = all[annotations.lock];
  return lock !== undefined && lock === all[annotations.rollbackRequest];
}

/** Reports whether the restore could read the data. */
async function restoring(
  source: RestoreSource,
  { dataFindings, backends }: Pick<SandboxDependencies, "dataFindings" | "backends">,
  restore: Promise<Started>,
): Promise<Started> {
  const name = source.data ?? source.name;
  try {
    const started = await restore;
    await dataFindings.reportRestore(name, backends);
    return started;
  } catch (thrown) {
    await dataFindings.reportRestore(name, backends, thrown);
    throw thrown;
  }
}

/** Learns the CPU of a node whose cell has refused memory. The cell still answers for a moment. */
function learning(target: SandboxRef, pod: Pod, { runtime, nodeCpus }: SandboxDependencies) {
  return async (thrown: unknown): Promise<never> => {
    const { code } = RametError.from(thrown);
    if (code === "CpuFeaturesMissing" || code === "NeedNotMet") {
      const build = await runtime.build(target).catch(() => undefined);
      if (build !== undefined) nodeCpus.learn(pod.spec.nodeName, build);
    }
    throw thrown;
  };
}

/** An invalid request fails inside the call, so the error is reported as its outcome. */
function adoptIdentity(
  sandbox: Sandbox,
  { pod, template }: Action<"adoptIdentity">,
  { calls, runtime, seal }: SandboxDependencies,
): void {
  calls.start(sandbox, pod, "adoption", async (signal) => {
    const target = await runtime.identified(sandboxRef(sandbox, pod), signal);
    const environment = { ...ownEnvironment(sandbox, template), ...requestedEnvironment(sandbox, seal) };
    return runtime.adopt(target, environment, signal);
  });
}

/** An invalid request must not prevent the start: the error is reported once the sandbox runs. */
function startEnvironment(
  sandbox: Sandbox,
  template: PodTemplateSpec,
  seal: RequestSeal,
): { environment: Record<string, string>; initRequest?: string | undefined } {
  const environment = ownEnvironment(sandbox, template);
  try {
    return {
      environment: { ...environment, ...requestedEnvironment(sandbox, seal) },
      initRequest: initRequestDigest(sandbox),
    };
  } catch (error) {
    if (RametError.from(error).code !== "InvalidArgument") throw error;
    return { environment };
  }
}

/** Repeated until the cell has answered: until then it may have a wider policy. */
function setEgress(
  sandbox: Sandbox,
  { pod, policy, digest }: Action<"setEgress">,
  { calls, runtime }: SandboxDependencies,
): void {
  calls.start(sandbox, pod, "egressCall", async (signal) => {
    try {
      await runtime.setEgress(sandboxRef(sandbox, pod), policy, signal);
      return { digest };
    } catch (thrown) {
      const error = RametError.from(thrown);
      if (!error.retryable) return { digest, error };
      throw new RametError("Unavailable", error.message, { retryable: true, cause: error });
    }
  });
}

/**
 * The template's literal values, as the cell gets values from other objects from the kubelet; and the variables of clients for a
 * sandbox of a set, which a client can claim at any time.
 */
function ownEnvironment({ metadata }: Sandbox, template: PodTemplateSpec): Record<string, string> {
  const set = metadata.labels?.[labels.sandboxPool];
  const literal = containerSpec(template).spec.env.map(({ name, value }) => [name, value] as const);
  return { ...(set !== undefined && clientEnvironment(metadata.namespace, set)), ...Object.fromEntries(literal) };
}
