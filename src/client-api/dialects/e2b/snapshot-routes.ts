import * as z from "zod";
import { defaultTag } from "../../../api/snapshot/snapshot-tags.ts";
import { clientNameOf, objectNameOf } from "../../../api/names/client-names.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { checkSnapshotLimit } from "../../service/key-limits.ts";
import { uidOf } from "../../service/find-sandbox.ts";
import {
  createdAt,
  createSnapshot,
  deleteSnapshot,
  idOf,
  listSnapshots,
  type Snapshot,
  type CreateSnapshot,
} from "../../service/snapshots.ts";
import { pageOf } from "./cursor.ts";
import { SnapshotInfo } from "./answers.ts";
import { type Call, type E2b, type E2bRoute, route } from "./call.ts";
import { needs } from "../../keys/needs.ts";
import { snapshotName } from "./snapshot-name.ts";
import { ListSnapshots, NewSnapshot, SnapshotHeaders } from "./schemas.ts";

/** Below the time that clients wait by default. */
const defaultWaitSeconds = 55;

export const snapshotRoutes: readonly E2bRoute[] = [
  route({
    method: "POST",
    path: "/sandboxes/:sandboxID/snapshots",
    summary: "Captures a running sandbox, and waits until sandboxes can be created from the snapshot.",
    needs: needs.capture,
    body: NewSnapshot,
    headers: SnapshotHeaders,
    answers: { 201: SnapshotInfo },
    handle: create,
  }),
  route({
    method: "GET",
    path: "/snapshots",
    summary: "Lists snapshots page by page. The header X-Next-Token continues the list.",
    needs: needs.listSnapshots,
    query: ListSnapshots,
    answers: { 200: z.array(SnapshotInfo) },
    handle: list,
  }),
  route({
    method: "DELETE",
    // SDKs for Python before 2.41 do not encode the slash of `team/name`.
    path: "/templates/*",
    wildcard: "templateID",
    summary: "Deletes a snapshot. Sandboxes that were created from it stay.",
    needs: needs.deleteSnapshot,
    answers: { 204: null },
    handle: async ({ service }, call) => {
      const { "*": id = "" } = call.request.params as { "*"?: string };
      await deleteSnapshot(service, call.caller.namespace, id, call.signal);
      return call.reply.code(204).send();
    },
  }),
];

async function create(e2b: E2b, call: Call<NewSnapshot, unknown, SnapshotHeaders>): Promise<unknown> {
  const { name, memory } = call.body ?? {};
  const { headers } = call;
  if (name !== undefined) await e2b.callers.require(call.caller, ...needs.nameSnapshot);
  checkSnapshotLimit(e2b.service, call.caller);
  const contents = contentsOf(memory, headers["x-e2b-kruise-snapshot-persistent-contents"]);
  const waitSeconds = headers["x-e2b-kruise-snapshot-wait-success-seconds"] ?? defaultWaitSeconds;
  const ttl = headers["x-e2b-kruise-snapshot-ttl"];
  const snapshot = await createSnapshot(e2b.service, await e2b.sandboxOf(call), {
    owner: call.caller.key,
    ...(name !== undefined && { name: snapshotName(name, call.caller.namespace) }),
    ...defined({ contents }),
    keepRunning: headers["x-e2b-kruise-snapshot-keep-running"] !== "false",
    ...defined({ ttl }),
    timeoutMilliseconds: waitSeconds * 1000,
    signal: call.signal,
  });
  return call.reply.code(201).send(viewOf(snapshot));
}

/** Undefined: the contents that the sandbox keeps. @throws RametError `InvalidArgument` */
function contentsOf(memory: boolean | undefined, header: string | undefined): CreateSnapshot["contents"] {
  if (header === undefined) return memory === false ? ["filesystem"] : undefined;
  const words = header.split(",").map((word) => word.trim());
  if (words.includes("filesystem") && words.every((word) => word === "filesystem" || word === "memory"))
    return words.includes("memory") ? ["memory", "filesystem"] : ["filesystem"];
  throw new RametError("InvalidArgument", `x-e2b-kruise-snapshot-persistent-contents is ${JSON.stringify(header)}`, {
    hint: "Use filesystem, or memory,filesystem",
  });
}

function viewOf(snapshot: Snapshot): SnapshotInfo {
  if (snapshot.kind === "checkpoint") return { snapshotID: snapshot.id, names: [] };
  const name = clientNameOf(snapshot.name);
  return { snapshotID: `${name}:${defaultTag}`, names: [name] };
}

async function list({ service }: E2b, call: Call<unknown, ListSnapshots>): Promise<unknown> {
  const { sandboxID, name, limit, nextToken } = call.query;
  const { namespace } = call.caller;
  const [own = ""] = (name ?? "").replace(`${namespace}/`, "").split(":");
  const found = listSnapshots(service, namespace, {
    // An id that cannot exist has no snapshots.
    ...(sandboxID !== undefined && { sourceUid: uidOf(sandboxID) ?? "none" }),
    ...(name !== undefined && { name: objectNameOf(own) }),
  });
  const keyOf = (snapshot: Snapshot) => ({ time: createdAt(snapshot), id: idOf(snapshot) });
  const page = pageOf(found, keyOf, { limit, nextToken, order: "desc" });
  if (page.nextToken !== undefined) void call.reply.header("x-next-token", page.nextToken);
  return call.reply.send(page.items.map(viewOf));
}
