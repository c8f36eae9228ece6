import * as z from "zod";
import { clientNameOf, parseClientName } from "../../../api/names/client-names.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { uidOf } from "../../service/find-sandbox.ts";
import { deleteSnapshot } from "../../service/delete-snapshot.ts";
import { takeSnapshot } from "../../service/key-limits.ts";
import { createSnapshot, type CreateSnapshot, listSnapshots, type Snapshot } from "../../service/snapshots.ts";
import { SnapshotInfo } from "./answers.ts";
import { type E2bRoute, route, sandboxOf } from "./call.ts";
import { pageFor } from "./cursor.ts";
import { ListSnapshots, NewSnapshot, SnapshotHeaders } from "./schemas.ts";
import { snapshotName } from "../../service/snapshot-name.ts";

/** Below the time that clients wait by default. */
const defaultWaitSeconds = 55;

export const snapshotRoutes: readonly E2bRoute[] = [
  route("POST", "/sandboxes/:sandboxID/snapshots", {
    summary: "Captures a running sandbox, and waits until sandboxes can be created from the snapshot.",
    needs: needs.capture,
    body: NewSnapshot,
    headers: SnapshotHeaders,
    answers: { 201: SnapshotInfo },
    handle: async (e2b, call) => {
      const { name, memory } = call.body ?? {};
      const { headers, caller, signal } = call;
      if (name !== undefined) await e2b.callers.require(caller, ...needs.nameSnapshot);
      takeSnapshot(e2b.service, caller);
      const contents = contentsOf(memory, headers["x-e2b-kruise-snapshot-persistent-contents"]);
      const waitSeconds = headers["x-e2b-kruise-snapshot-wait-success-seconds"] ?? defaultWaitSeconds;
      const ttl = headers["x-e2b-kruise-snapshot-ttl"];
      const snapshot = await createSnapshot(e2b.service, await sandboxOf(e2b, call), {
        owner: caller.key,
        ...(name !== undefined && { name: snapshotName(name, caller.namespace) }),
        ...defined({ contents, ttl }),
        keepRunning: headers["x-e2b-kruise-snapshot-keep-running"] !== "false",
        timeoutMilliseconds: waitSeconds * 1000,
        signal,
      });
      return viewOf(snapshot);
    },
  }),
  route("GET", "/snapshots", {
    summary: "Lists snapshots page by page. The header X-Next-Token continues the list.",
    needs: needs.listSnapshots,
    query: ListSnapshots,
    answers: { 200: z.array(SnapshotInfo) },
    handle: ({ service }, { query, caller: { namespace }, reply }) => {
      const { sandboxID, name } = query;
      const found = listSnapshots(service, namespace, {
        // An id that cannot exist has no snapshots.
        ...(sandboxID !== undefined && { sourceUid: uidOf(sandboxID) ?? "none" }),
        ...(name !== undefined && { name: parseClientName(name, namespace).name }),
      });
      const keyOf = ({ createdAt, id }: Snapshot) => ({ time: createdAt, id });
      return pageFor(reply, found, keyOf, { ...query, order: "desc" }).map(viewOf);
    },
  }),
  // SDKs for Python before 2.41 do not encode the slash of `team/name`.
  route("DELETE", "/templates/*", {
    wildcard: "templateID",
    summary: "Deletes a snapshot. Sandboxes that were created from it stay.",
    needs: needs.deleteSnapshot,
    answers: { 204: null },
    handle: ({ service }, { params: { "*": id = "" }, caller, signal }) =>
      deleteSnapshot(service, caller.namespace, id, signal),
  }),
];

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

function viewOf({ id, named }: Snapshot): z.infer<typeof SnapshotInfo> {
  if (named === undefined) return { snapshotID: id, names: [] };
  const name = clientNameOf(named.name);
  const tags = named.tags.map((tag) => `${name}:${tag}`);
  return { snapshotID: clientNameOf(id), names: [...(named.isCurrent ? [name] : []), ...tags] };
}
