import * as z from "zod";
import type { Checkpoint } from "../../../api/kinds/checkpoint.ts";
import { type Holder, Storage } from "../../../api/state/storage.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import type { Caller } from "../../keys/callers.ts";
import { needs } from "../../keys/needs.ts";
import { sandboxIdOf } from "../../service/find-sandbox.ts";
import { sandboxesOfKey } from "../../service/key-limits.ts";
import { snapshotsOf } from "../../service/snapshots.ts";
import { type Call, envelope, olderPrefix, route, type Sandbox0, type Sandbox0Route, success } from "./call.ts";
import { QuotaDimension, ReadUsage } from "./schemas.ts";

const Quota = z
  .object({
    team_id: z.string(),
    dimension: z.string(),
    kind: z.enum(["capacity", "rate"]),
    limit_value: z.int().nullable(),
    interval_ms: z.int().nullable(),
    burst_value: z.int().nullable(),
    current: z.int().nullable(),
    remaining: z.int().nullable(),
    unlimited: z.boolean(),
    unit: z.string(),
    source: z.enum(["team_override", "unlimited"]),
  })
  .meta({ id: "TeamQuota" });

const Time = z.iso.datetime();
const UsageWindow = z
  .object({
    window_id: z.string(),
    window_type: z.string(),
    subject_type: z.enum(["team", "snapshot", "sandbox", "checkpoint"]),
    subject_id: z.string(),
    sandbox_id: z.string().optional(),
    window_start: Time,
    window_end: Time.describe("The same: nothing is recorded over time."),
    value: z.int(),
    unit: z.enum(["bytes", "count"]),
    recorded_at: Time,
  })
  .meta({ id: "UsageWindow" });
type Window = Pick<z.infer<typeof UsageWindow>, "window_type" | "subject_type" | "subject_id" | "value" | "unit">;

export const quotaRoutes: readonly Sandbox0Route[] = [
  route("GET", "/api/v1/quotas", {
    summary: "Lists the limits of the key.",
    needs: [],
    answers: { 200: envelope(z.array(Quota)) },
    handle: ({ service }, { caller, request }) => {
      // Each client fails for a dimension that it does not know.
      const missing = request.url.startsWith(`${olderPrefix}/`) ? "paused_sandboxes" : "snapshot_storage_gb";
      const listed = QuotaDimension.options.filter((each) => each !== missing);
      return success(listed.map((each) => quotaOf(service, caller, each)));
    },
  }),
  route("GET", "/api/v1/quotas/:dimension", {
    summary: "Describes a limit of the key. A traffic that nothing limits is unlimited.",
    needs: [],
    answers: { 200: envelope(Quota) },
    handle: ({ service }, { caller, params: { dimension } }) =>
      success(quotaOf(service, caller, dimensionIn(dimension))),
  }),
  route("GET", "/api/v1/usage/windows", {
    summary: "Lists what the namespace uses now, and what its snapshots and paused sandboxes need in the store.",
    needs: [...needs.list, ...needs.listSnapshots, ...needs.listTemplates],
    query: ReadUsage,
    answers: { 200: envelope(z.object({ windows: z.array(UsageWindow), next_cursor: z.string() })) },
    handle: listUsage,
  }),
];

/** @throws RametError `NotFound` */
function dimensionIn(text: string | undefined): QuotaDimension {
  const { data } = QuotaDimension.safeParse(text);
  if (data !== undefined) return data;
  throw new RametError("NotFound", "The quota does not exist", {
    hint: `It is one of ${QuotaDimension.options.join(", ")}`,
  });
}

interface Limit {
  unit: string;
  limit?: number;
  /** Of a capacity. */
  current?: number;
}

/** The unit of Sandbox0's quota of snapshots, whose values are whole numbers. */
const gigabyte = 1e9;

const limits: Record<QuotaDimension, (service: Sandbox0["service"], caller: Caller) => Limit> = {
  active_sandboxes: (service, caller) => ({
    unit: "count",
    limit: caller.limits.sandboxes,
    current: sandboxesOfKey(service, caller).length,
  }),
  paused_sandboxes: (service, caller) => ({
    unit: "count",
    current: sandboxesOfKey(service, caller).filter(({ spec }) => spec.paused === true).length,
  }),
  snapshot_storage_gb: (service, { namespace, key, limits: { snapshotBytes } }) => {
    const used = snapshotsOf(service, namespace, key).sizes.reduce((sum, size) => sum + size, 0);
    const limit = Math.max(snapshotBytes > 0 ? 1 : 0, Math.floor(snapshotBytes / gigabyte));
    return { unit: "GB", limit, current: Math.ceil(used / gigabyte) };
  },
  sandbox_claims: () => ({ unit: "claims" }),
  api_requests: (_, { limits: { requestsPerSecond } }) => ({ unit: "requests", limit: requestsPerSecond }),
  network_egress_bytes: () => ({ unit: "bytes" }),
  network_ingress_bytes: () => ({ unit: "bytes" }),
};

function quotaOf(service: Sandbox0["service"], caller: Caller, dimension: QuotaDimension): z.infer<typeof Quota> {
  const { unit, limit = Infinity, current } = limits[dimension](service, caller);
  const isCapacity = current !== undefined;
  const isUnlimited = limit === Infinity;
  return {
    team_id: caller.namespace,
    dimension,
    kind: isCapacity ? "capacity" : "rate",
    limit_value: isUnlimited ? null : limit,
    interval_ms: isCapacity ? null : 1_000,
    burst_value: isCapacity || isUnlimited ? null : limit,
    current: current ?? null,
    remaining: current === undefined || isUnlimited ? null : Math.max(0, limit - current),
    unlimited: isUnlimited,
    unit,
    source: isUnlimited ? "unlimited" : "team_override",
  };
}

/** What is in the store counts towards the quotas `storeBytes` and `checkpoints` of the namespace. */
const usageTypes = ["sandboxes", "store.bytes", "store.checkpoints", "store.unique_bytes", "store.shared_bytes"];

function listUsage({ service }: Sandbox0, { query, caller: { namespace } }: Call<z.ZodUnknown, typeof ReadUsage>) {
  const { window_type: type, cursor = "", limit } = query;
  if (type !== undefined && !usageTypes.includes(type))
    throw new RametError("NotSupported", `The usage ${JSON.stringify(type)} is not recorded`, {
      hint: `Read the metrics of the servers with Prometheus; there is ${usageTypes.join(", ")}`,
    });
  const all = usageOf(service, namespace)
    .map((window) => ({ ...window, window_id: [window.window_type, window.subject_type, window.subject_id].join("/") }))
    .filter(({ window_type, window_id }) => (type ?? window_type) === window_type && window_id > cursor)
    .sort((a, b) => (a.window_id < b.window_id ? -1 : 1));
  const time = service.clock.now().toISOString();
  const page = all.slice(0, limit).map(({ subject_type: subject, subject_id: id, ...window }) => ({
    ...window,
    subject_type: subject,
    subject_id: id,
    ...defined({ sandbox_id: subject === "sandbox" ? id : undefined }),
    window_start: time,
    window_end: time,
    recorded_at: time,
  }));
  return success({ windows: page, next_cursor: page.at(-1)?.window_id ?? "" });
}

function usageOf({ known }: Pick<Sandbox0["service"], "known">, namespace: string): Window[] {
  const sandboxes = known.sandboxesIn(namespace);
  const storage = new Storage(known.checkpointsIn(namespace));
  const ids = new Map<string, string>([
    ...sandboxes.map((one) => [`sandbox/${one.metadata.name}`, sandboxIdOf(one)] as const),
    ...storage.checkpoints.map((one) => [`checkpoint/${one.metadata.name}`, idOf(one)] as const),
  ]);
  const ofTeam = (window_type: string, value: number, unit: Window["unit"]): Window => ({
    window_type,
    subject_type: "team",
    subject_id: namespace,
    value,
    unit,
  });
  const ofHolder = ({ kind, name, uniqueBytes, sharedBytes }: Holder): Window[] => {
    const subject = { subject_type: kind, subject_id: ids.get(`${kind}/${name}`) ?? name, unit: "bytes" } as const;
    return [
      { ...subject, window_type: "store.unique_bytes", value: uniqueBytes },
      { ...subject, window_type: "store.shared_bytes", value: sharedBytes },
    ];
  };
  return [
    ofTeam("sandboxes", sandboxes.length, "count"),
    ofTeam("store.bytes", storage.usedWith(sandboxes), "bytes"),
    ofTeam("store.checkpoints", storage.checkpoints.length, "count"),
    ...storage.holders(known.snapshotsIn(namespace)).flatMap(ofHolder),
  ];
}

function idOf({ metadata, status }: Checkpoint): string {
  return status?.checkpointId ?? metadata.name;
}
