import * as z from "zod";
import { findIgnored } from "../../api/fields/find-ignored.ts";
import { fieldsIgnored, ignoredCondition } from "../../api/fields/ignored-condition.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { Condition } from "../../api/schema/metadata.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { KubeObject } from "../../kube/object.ts";
import { type Io, printLine } from "../io.ts";
import type { UserKindName } from "./user-kind.ts";

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
