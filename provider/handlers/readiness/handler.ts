import * as z from "zod";
import { sandboxKind } from "../../../src/api/kinds/sandbox.ts";
import { sandboxSetKind } from "../../../src/api/kinds/sandbox-set.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import type { KubeObject } from "../../../src/kube/object.ts";
import { awaitSandbox } from "../../../src/operations/await-sandbox.ts";
import { awaitSet } from "../../../src/operations/await-set.ts";
import { followed, InitFailed, settledObject } from "../follow.ts";
import {
  type DiffTable,
  diffByTable,
  type HandlerContext,
  notFound,
  progressOf,
  type ResourceHandler,
  type Values,
} from "../handler.ts";
import { withCluster } from "../open-cluster.ts";
import { parseTimeSpan } from "../time-span.ts";
import { checkInputs } from "../validate.ts";

const ReadinessInputs = z.looseObject({
  /** Cluster: nothing is awaited. Its state tells that the program's cluster is another one. */
  kind: z.enum(["Sandbox", "SandboxSet", "Cluster"]),
  name: z.string(),
  namespace: z.string(),
  /** Changes with the declared object, which is then waited for again. */
  revision: z.string(),
  /** The UID of the object, which is awaited again after it was deleted and made again. States of earlier releases have none. */
  uid: z.string().optional(),
  /** How long to wait, such as `10 minutes`. */
  timeout: z.string(),
});
type ReadinessInputs = z.infer<typeof ReadinessInputs>;

const readinessDiff: DiffTable = {
  immutable: ["kind", "name", "namespace"],
  mutable: ["revision", "uid"],
};

/**
 * Waits for an object that Pulumi's Kubernetes provider has applied. That provider can only wait for a condition to become true, so
 * it waits for ten minutes for what the controllers have given up, and does not say why.
 */
export function readinessHandler(context: HandlerContext): ResourceHandler {
  return {
    check: (_olds, news) => Promise.resolve(checkInputs(ReadinessInputs, news, ["timeout"])),
    diff: (_id, olds, news) =>
      Promise.resolve(diffByTable(readinessDiff, olds, { ...news, uid: olds["uid"] && (news["uid"] ?? olds["uid"]) })),
    create: async (values) => {
      const inputs = ReadinessInputs.parse(values);
      const id = `${inputs.kind}/${inputs.namespace}/${inputs.name}`;
      return { id, outs: await ready(context, inputs, id) };
    },
    update: async (id, _olds, news) => ({ outs: await ready(context, ReadinessInputs.parse(news), id) }),
    // The wait for an object that was deleted is repeated for its successor.
    read: async (id, props) => {
      const { kind, uid, ...at } = ReadinessInputs.parse(props);
      if (kind === "Cluster") return { id, props };
      const found = await withCluster(context, async (client): Promise<KubeObject | undefined> => {
        return kind === "Sandbox" ? client.of(sandboxKind).find(at) : client.of(sandboxSetKind).find(at);
      });
      return found === undefined || (uid ?? found.metadata.uid) !== found.metadata.uid ? notFound : { id, props };
    },
    // The object is another resource.
    delete: () => Promise.resolve(),
  };
}

async function ready(context: HandlerContext, inputs: ReadinessInputs, id: string): Promise<Values> {
  if (inputs.kind === "Cluster") return inputs;
  try {
    await withCluster(context, (client) => waitFor(client, inputs, context));
    return inputs;
  } catch (error) {
    throw new InitFailed(id, inputs, RametError.from(error));
  }
}

async function waitFor(client: KubeClient, inputs: ReadinessInputs, context: HandlerContext): Promise<void> {
  const { kind, name, timeout } = inputs;
  const wait = { timeoutMilliseconds: parseTimeSpan(timeout, "timeout"), signal: context.signal };
  const log = progressOf(context, name);
  const hint = "The controllers keep trying; correct the cause, then run pulumi up again";
  if (kind === "SandboxSet") {
    const sets = client.of(sandboxSetKind);
    const from = declared(await sets.find(inputs), inputs);
    settledObject(await awaitSet(followed(sets, log), from, { goal: "ready", ...wait }), { log, hint });
  } else if (kind === "Sandbox") {
    const sandboxes = client.of(sandboxKind);
    const from = declared(await sandboxes.find(inputs), inputs);
    settledObject(await awaitSandbox({ sandboxes: followed(sandboxes, log) }, from, wait), { log, hint });
  }
}

/** @throws RametError `NotFound` if it is not the object that the program has declared before */
function declared<T extends KubeObject>(found: T | undefined, { kind, namespace, name, uid }: ReadinessInputs): T {
  if (found !== undefined && (uid ?? found.metadata.uid) === found.metadata.uid) return found;
  const what = `The cluster of Ramet's provider does not have the ${kind} ${namespace}/${name} that the program has declared`;
  throw new RametError("NotFound", what, {
    hint: "Unless it was deleted meanwhile, the Kubernetes provider declares it in another cluster: give the component both providers, with one kubeconfig",
  });
}
