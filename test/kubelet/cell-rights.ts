import { readdir, readFile } from "node:fs/promises";
import { cellCapabilities } from "../../src/api/pod/cell-container.ts";
import type { World } from "./world.ts";

/** From linux/capability.h. */
export const capabilityBits: Record<(typeof cellCapabilities)[number], number> = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  FOWNER: 3,
  FSETID: 4,
  SETGID: 6,
  SETUID: 7,
  NET_BIND_SERVICE: 10,
  NET_ADMIN: 12,
  NET_RAW: 13,
  SYS_ADMIN: 21,
  SETFCAP: 31,
};

/** The fields of `/proc/<pid>/status` of each running cell, its limit for core files, and the user of the node that root is. */
export async function cellStatuses(): Promise<Record<string, string>[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const statuses = await Promise.all(
    pids.map(async (pid) => {
      const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      if (command !== "node\0/opt/ramet/dist/cell.cjs\0") return [];
      const lines = (await readFile(`/proc/${pid}/status`, "utf8")).trim().split("\n");
      const [, core = ""] = /^Max core file size +(.*?) *$/m.exec(await readFile(`/proc/${pid}/limits`, "utf8")) ?? [];
      const status = Object.fromEntries(lines.map((line) => line.split(/:\s*/) as [string, string]));
      const [start = ""] = (await readFile(`/proc/${pid}/uid_map`, "utf8")).trim().split(/\s+/).slice(1);
      return [{ ...status, "core file size": core, "user of root": start }];
    }),
  );
  if (statuses.flat().length === 0) throw new Error("no cell runs");
  return statuses.flat();
}

/**
 * Removes one capability from every cell that is created afterwards, to find out which test fails without it. A mutating admission
 * policy does it, so that the product needs no option for it.
 */
export async function withoutCapability(world: World, name: string | undefined): Promise<void> {
  if (name === undefined) return;
  if (!Object.keys(capabilityBits).includes(name)) throw new Error(`cells do not have the capability ${name}`);
  const path = "/spec/containers/0/securityContext/capabilities/add";
  const kept = cellCapabilities.filter((each) => each !== name);
  const expression = `[JSONPatch{op: "replace", path: "${path}", value: ${JSON.stringify(kept)}}]`;
  const group = "admissionregistration.k8s.io/v1";
  const metadata = { name: "without-capability" };
  const policy = {
    apiVersion: group,
    kind: "MutatingAdmissionPolicy",
    metadata,
    spec: {
      reinvocationPolicy: "Never",
      matchConstraints: {
        resourceRules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] }],
      },
      matchConditions: [{ name: "cell", expression: '"ramet.dev/cell" in object.metadata.?labels.orValue({})' }],
      mutations: [{ patchType: "JSONPatch", jsonPatch: { expression } }],
    },
  };
  const binding = {
    apiVersion: group,
    kind: "MutatingAdmissionPolicyBinding",
    metadata,
    spec: { policyName: metadata.name },
  };
  await world.apply([policy, binding].map((object) => JSON.stringify(object)).join("\n---\n"));
}
