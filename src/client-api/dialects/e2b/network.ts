import { EgressRules, namesInside, parseEgressRule } from "../../../api/egress/egress-rules.ts";
import { annotations } from "../../../api/names/labels.ts";
import { RametError } from "../../../base/errors.ts";
import type { Network, NewSandbox } from "./schemas.ts";

/** The request denies everything that `allowOut` does not name. */
export const everything = "0.0.0.0/0";

/** Fields of `network` that Ramet does not have. */
const unsupported = ["dnsServers"] as const;

/**
 * The annotations that request the egress rules of a client. In E2B, an allowed destination beats a denied one.
 * @throws RametError `InvalidArgument`; `NotSupported`, naming the field
 */
export function egressAnnotations({
  network = {},
  allow_internet_access: internet,
}: Pick<NewSandbox, "network" | "allow_internet_access">): Record<string, string> {
  const field = unsupported.find((name) => network[name] !== undefined && network[name] !== null);
  if (field !== undefined) throw new RametError("NotSupported", `network.${field} is not supported`);
  const { denyOut = [] } = network;
  const rules = rulesOf(internet === false ? { ...network, denyOut: [...denyOut, everything] } : network);
  return rules === undefined ? {} : { [annotations.egress]: JSON.stringify(rules) };
}

/** Removes the rules of the client. Those of the template, the namespace and the runtime still apply. */
export const noEgress = { [annotations.egress]: null };

function rulesOf({ allowOut: named = [], denyOut = [], egressProxy }: Network): EgressRules | undefined {
  if (named.length + denyOut.length === 0) return undefined;
  // The client allows its proxy by naming it.
  const allowOut = egressProxy && denyOut.includes(everything) ? [...named, egressProxy.address] : named;
  const name = denyOut.find((entry) => !isAddress(entry));
  if (name !== undefined)
    throw new RametError("InvalidArgument", `network.denyOut: ${JSON.stringify(name)} is not an address or a range`);
  if (denyOut.includes(everything)) return parsed({ default: "deny", allow: allowOut, deny: [] });
  const domain = allowOut.find((entry) => !isAddress(entry));
  if (domain !== undefined) {
    throw new RametError("InvalidArgument", `network.allowOut: ${JSON.stringify(domain)} is a name`, {
      hint: `Add ${everything} to denyOut: a name is only allowed where everything else is denied`,
    });
  }
  const exception = allowOut.find((entry) => isInside(entry, denyOut));
  if (exception !== undefined) {
    throw new RametError("NotSupported", `network.allowOut: ${exception} is inside a range of denyOut`, {
      hint: `Deny ${everything}, and allow what the sandbox needs`,
    });
  }
  return parsed({ default: "allow", allow: [], deny: denyOut });
}

function isAddress(entry: string): boolean {
  const rule = parseEgressRule(entry);
  return typeof rule !== "string" && rule.target !== "any" && "range" in rule.target;
}

function isInside(entry: string, ranges: readonly string[]): boolean {
  const rule = parseEgressRule(entry);
  return typeof rule !== "string" && namesInside(rule, ranges);
}

function parsed(rules: unknown): EgressRules {
  const { data, error } = EgressRules.safeParse(rules);
  if (data !== undefined) return data;
  throw new RametError("InvalidArgument", `network: ${error.issues[0]?.message ?? "it is not valid"}`);
}
