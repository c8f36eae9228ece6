import * as z from "zod";
import { EgressRules } from "../../../api/egress/egress-rules.ts";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import { defined } from "../../../base/defined.ts";
import type { NewSandbox } from "./schemas.ts";
import { everything } from "./network.ts";

/** The network settings that clients get back, without those in other annotations. Values of credentials are not in it. */
const ClientNetwork = z.object({
  allowInternetAccess: z.boolean().optional(),
  /** The address. */
  egressProxy: z.string().optional(),
  /** The domains. */
  rules: z.array(z.string()).optional(),
});
type ClientNetwork = z.infer<typeof ClientNetwork>;

/** The annotation with what a client gets back of its request. */
export function clientNetworkAnnotation({
  network = {},
  allow_internet_access: allowInternetAccess,
}: Pick<NewSandbox, "network" | "allow_internet_access">): Record<string, string> {
  const { egressProxy, rules } = network;
  const noted: ClientNetwork = {
    ...defined({ allowInternetAccess }),
    ...(egressProxy && { egressProxy: egressProxy.address }),
    ...(rules && { rules: Object.keys(rules) }),
  };
  return { [annotations.clientNetwork]: JSON.stringify(noted) };
}

/** The network settings of a sandbox, as clients get them. */
export function networkView({ metadata }: Sandbox) {
  const given = metadata.annotations ?? {};
  const { allowInternetAccess, egressProxy, rules } = parsed(ClientNetwork, given[annotations.clientNetwork]) ?? {};
  const host = given[annotations.requestHost];
  const httpsPorts = (given[annotations.httpsPorts] ?? "").split(",").filter((port) => /^\s*\d{1,5}\s*$/.test(port));
  return {
    ...defined({ allowInternetAccess }),
    network: {
      ...egressView(parsed(EgressRules, given[annotations.egress])),
      ...(rules && { rules: Object.fromEntries(rules.map((domain) => [domain, [{}]])) }),
      ...(egressProxy !== undefined && { egressProxy: { address: egressProxy } }),
      allowPublicTraffic: given[annotations.publicPorts]?.trim() === "*",
      ...defined({ maskRequestHost: host }),
      ...(httpsPorts.length > 0 && { httpsPorts: httpsPorts.map(Number) }),
    },
  };
}

/** In the words of E2B, which has no default: what is denied by default is the range of all addresses. */
function egressView(rules: EgressRules | undefined): { allowOut?: string[]; denyOut?: string[] } {
  if (rules === undefined) return {};
  const { default: otherwise, allow, deny } = rules;
  const denyOut = otherwise === "deny" ? [everything, ...deny] : deny;
  return { ...(allow.length > 0 && { allowOut: allow }), ...(denyOut.length > 0 && { denyOut }) };
}

/** Undefined for an annotation that is not valid: somebody has changed it. */
function parsed<T>(schema: z.ZodType<T>, text: string | undefined): T | undefined {
  try {
    return text === undefined ? undefined : schema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
