import type { KubeObject } from "../../kube/object.ts";
import { age, size } from "../output/render.ts";
import { visible } from "../../base/visible.ts";
import type { Explanation, HeldStorage } from "./explanation.ts";

export interface Explained {
  /** The kind's name on the command line. */
  kind: string;
  object: KubeObject;
  explanation: Explanation;
  /** The facts that could not be read, and why. */
  unknown: string[];
}

/** Explanations as text for people, or as JSON: one object, or a list of several. */
export function renderExplained(all: readonly Explained[], output: "table" | "json", now: Date): string {
  if (output === "table") return all.map((one) => block(one, now)).join("\n");
  const documents = all.map(document);
  return `${JSON.stringify(documents.length === 1 ? documents[0] : documents, undefined, 2)}\n`;
}

function document({ kind, object, explanation, unknown }: Explained): object {
  const { name, namespace } = object.metadata;
  const { phase = phaseOf(object), ...explained } = explanation;
  return { object: `${kind}/${name}`, namespace, phase, ...explained, unknown };
}

/** A line each, because sentences do not fit into columns. */
function block({ kind, object, explanation, unknown }: Explained, now: Date): string {
  const { state, cause, reason, since, lastEvent, retry, action, foundIn, storage } = explanation;
  const phase = explanation.phase ?? phaseOf(object);
  const { name, namespace } = object.metadata;
  const lines: [string, string | undefined][] = [
    ["OBJECT", namespace === undefined ? `${kind}/${name}` : `${kind}/${name} in ${namespace}`],
    ["STATE", phase === undefined ? state : `${state} (${phase})`],
    ["CAUSE", reason === undefined ? cause : `${cause} [${reason}]`],
    ["FOUND IN", foundIn],
    ["SINCE", since === undefined ? undefined : `${age(since, now)} (${since})`],
    ["LAST EVENT", lastEvent && `${lastEvent.reason}, ${age(lastEvent.at, now)} ago: ${lastEvent.message}`],
    ["HELD BY", storage && describeStorage(storage)],
    ["NEXT RETRY", retry],
    ["DO", action],
    ["UNKNOWN", unknown.length === 0 ? undefined : unknown.join("; ")],
  ];
  return lines
    .filter(([, text]) => text !== undefined)
    .map(([heading, text = ""]) => `${heading.padEnd(12)}${visible(text.replace(/\s+/g, " "))}\n`)
    .join("");
}

function describeStorage({ usedBytes, holders }: HeldStorage): string {
  const largest = holders.map(
    ({ kind, name, uniqueBytes, sharedBytes, use }) =>
      `${kind}/${name} ${size(uniqueBytes)}${sharedBytes > 0 ? ` and ${size(sharedBytes)} shared` : ""}${use === undefined ? "" : ` (${use})`}`,
  );
  return `${size(usedBytes)} in this namespace, most by ${largest.join(", ")}`;
}

function phaseOf(object: KubeObject): string | undefined {
  if (object.metadata.deletionTimestamp !== undefined) return "Terminating";
  const status: unknown = "status" in object ? object.status : undefined;
  const phase: unknown = typeof status === "object" && status !== null && "phase" in status ? status.phase : undefined;
  return typeof phase === "string" ? phase : undefined;
}
