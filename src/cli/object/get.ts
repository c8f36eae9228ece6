import * as z from "zod";
import { fieldsIgnored, findIgnored, ignoredCondition } from "../../api/fields/find-ignored.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { annotations } from "../../api/names/labels.ts";
import { Condition } from "../../api/schema/metadata.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { KubeObject } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { type Cluster, noNamespace } from "../cluster/cluster.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { type OutputFormat, inOrder, renderList, renderObject } from "../output/render.ts";
import { type UserKindName, columnsOf, findObject, userKinds } from "./user-kind.ts";

export interface GetOptions {
  kind: UserKindName;
  names: readonly string[];
  output: OutputFormat;
}

/** `ramet sandbox get`, and `get` of every other kind. @param details follow the table */
export async function getObjects(
  io: Io,
  cluster: Cluster,
  options: GetOptions,
  details: (objects: readonly KubeObject[]) => string = () => "",
): Promise<void> {
  const objects = await Promise.all(options.names.map((name) => findObject(cluster, options.kind, name)));
  const columns = await columnsOf(cluster, options.kind, { namespace: cluster.namespace, output: options.output });
  const rendering = { output: options.output, columns, now: io.clock.now() };
  const [first] = objects;
  const single = objects.length === 1 && first !== undefined;
  await writeAll(io.stdout, single ? renderObject(first, rendering) : renderList(objects, rendering));
  if (options.output !== "table") return;
  await writeAll(io.stdout, details(objects));
  warnOfIgnored(io, options.kind, objects);
}

export interface ListOptions {
  kind: UserKindName;
  output: OutputFormat;
  allNamespaces?: boolean;
  /** Kubernetes' label selector. */
  selector?: string;
}

/** `ramet sandbox ls`, and `ls` of every other kind: prints the objects by namespace and name. */
export async function listObjects(io: Io, cluster: Cluster, options: ListOptions): Promise<void> {
  const { kind } = userKinds[options.kind];
  const everywhere = options.allNamespaces === true;
  const namespace = everywhere ? undefined : cluster.namespace;
  const { items } = await cluster.raw(kind).list({
    namespace,
    labelSelector: options.selector,
    signal: io.signal,
  });
  if (items.length === 0 && options.output === "table") {
    if (!everywhere) await requireNamespace(cluster);
    printLine(
      io.stderr,
      `No ${options.kind} ${everywhere ? "in any namespace" : `in namespace ${cluster.namespace}`}.`,
    );
    return;
  }
  const { output } = options;
  const known = options.kind === "checkpoint" && options.selector === undefined ? items : undefined;
  const columns = await columnsOf(cluster, options.kind, { namespace, output, known });
  const width = io.terminal?.size().columns;
  const rendering = { output, columns, now: io.clock.now(), withNamespace: everywhere, width };
  // The snapshots of clients follow the user's own checkpoints, grouped by the key that created them.
  const groupOf = ({ metadata }: KubeObject) =>
    options.kind === "checkpoint" ? metadata.annotations?.[annotations.owner] : undefined;
  const ordered = inOrder(items, (item) => ({ ...item.metadata, kind: groupOf(item) }));
  await writeAll(io.stdout, renderList(ordered, rendering));
}

/** A namespace that does not exist is most likely a typing error. @throws RametError `NotFound` */
export async function requireNamespace({ client, namespace, signal }: Cluster): Promise<void> {
  const namespaces = client.resource(coreResources.namespaces);
  try {
    await namespaces.get({ name: namespace }, { signal });
  } catch (error) {
    // Users without the right to read namespaces get the answer of an existing one.
    if (RametError.from(error).code !== "NotFound") return;
    throw noNamespace(namespace, error);
  }
}

/** A report of the fields of an object without effect. */
export type IgnoredReport = Pick<Condition, "reason" | "message"> & { since: string | undefined };

/**
 * Returns the report about fields of an object without effect; undefined if all have one. A SandboxTemplate has no status, so its
 * fields are compared with the table here.
 */
export function ignoredReport(kind: UserKindName, object: KubeObject): IgnoredReport | undefined {
  if (kind === "template") return reportOfTemplate(object);
  const { data } = WithConditions.safeParse(object);
  const found = findCondition(data?.status?.conditions, fieldsIgnored);
  if (found?.status !== "True") return undefined;
  const { reason, message, lastTransitionTime: since } = found;
  return { reason, message, since };
}

/** Prints a warning for each object with fields without effect. */
export function warnOfIgnored(io: Io, kind: UserKindName, objects: readonly KubeObject[]): void {
  for (const object of objects) {
    const report = ignoredReport(kind, object);
    if (report !== undefined) printLine(io.stderr, `Warning: ${kind}/${object.metadata.name}: ${report.message}`);
  }
}

function reportOfTemplate(object: KubeObject): IgnoredReport | undefined {
  const { data } = SandboxTemplate.safeParse(object);
  const found = data && ignoredCondition(findIgnored("SandboxTemplate", data));
  return found && { reason: found.reason, message: found.message, since: object.metadata.creationTimestamp };
}

const WithConditions = z.object({ status: z.object({ conditions: z.array(Condition).optional() }).optional() });
