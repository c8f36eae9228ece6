import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import type { Cache } from "../cluster/cache.ts";
import { resolveTemplate } from "./resolve-template.ts";

type SecretsCache = Pick<Cache, "template" | "templatesOwnedBy" | "checkpointById" | "snapshot">;

/**
 * The Secrets whose values the memory of a sandbox can hold: those of its template, and those of the checkpoint from which it
 * was restored. A Secret that a person or a program brought in by another way is unknown.
 */
export function secretsOfSandbox(sandbox: Sandbox, cache: SecretsCache): string[] {
  const id = sandbox.status?.ramet?.restoredFrom;
  const origin = id === undefined ? undefined : cache.checkpointById(sandbox.metadata.namespace, id);
  const resolved = resolveTemplate(sandbox, cache, origin);
  const own = "problem" in resolved ? [] : secretsOfTemplate(resolved.template);
  return unique([...own, ...(origin === undefined ? [] : secretsOfCheckpoint(origin, cache))]);
}

/** The Secrets whose values a finished checkpoint can hold, including those that a recipe copied before it. */
export function secretsOfCheckpoint({ metadata, status }: Checkpoint, cache: Pick<Cache, "snapshot">): string[] {
  const snapshot = metadata.labels?.[labels.snapshot];
  const versions =
    snapshot === undefined ? [] : (cache.snapshot(`${metadata.namespace}/${snapshot}`)?.status?.versions ?? []);
  const own = versions.filter(({ checkpointId }) => checkpointId === status?.checkpointId);
  // A checkpoint of a single step belongs to no version, but its steps are those of one.
  const copied = (own.length > 0 ? own : versions).flatMap(({ secrets }) => secrets ?? []);
  return unique([...(status?.ramet?.secrets ?? []), ...copied]);
}

/**
 * The Secrets that a Pod template gives to the sandbox as variables or files. Sidecars have memory that no checkpoint contains.
 * The template may be invalid, which is reported elsewhere.
 */
export function secretsOfTemplate(template: unknown): string[] {
  const spec = field(template, "spec");
  const [main] = list(field(spec, "containers"));
  const mounted = new Set(list(field(main, "volumeMounts")).map((mount) => field(mount, "name")));
  const variables = list(field(main, "env")).map((one) =>
    field(field(field(one, "valueFrom"), "secretKeyRef"), "name"),
  );
  const all = list(field(main, "envFrom")).map((one) => field(field(one, "secretRef"), "name"));
  const files = list(field(spec, "volumes"))
    .filter((volume) => mounted.has(field(volume, "name")))
    .flatMap(secretsOfVolume);
  return unique([...variables, ...all, ...files].filter((name) => typeof name === "string"));
}

function secretsOfVolume(volume: unknown): unknown[] {
  const sources = list(field(field(volume, "projected"), "sources"));
  return [field(field(volume, "secret"), "secretName"), ...sources.map((one) => field(field(one, "secret"), "name"))];
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)].sort();
}
