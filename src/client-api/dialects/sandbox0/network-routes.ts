import { EgressRules, isName, parseEgressRule } from "../../../api/egress/egress-rules.ts";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations, jsonAnnotation } from "../../../api/names/labels.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { setNetwork } from "../../service/lifecycle.ts";
import { envelope, route, type Sandbox0Route, sandboxOf, success, timeoutMilliseconds } from "./call.ts";
import { Network, type PortSpec, type TrafficRule } from "./schemas.ts";

const network = "/api/v1/sandboxes/:id/network";

export const networkRoutes: readonly Sandbox0Route[] = [
  route("GET", network, {
    summary:
      "Describes the network that was requested for a sandbox. Rules of its template, its namespace and the runtime apply too.",
    needs: needs.read,
    answers: { 200: envelope(Network) },
    handle: async (sandbox0, call) => success(networkView(await sandboxOf(sandbox0, call))),
  }),
  route("PUT", network, {
    summary: "Replaces the network of a running sandbox, and waits until it has it.",
    needs: needs.change,
    body: Network,
    answers: { 200: envelope(Network) },
    handle: async (sandbox0, call) => {
      const { body, signal } = call;
      const requested = { [annotations.egress]: egressAnnotation(body) ?? null };
      const sandbox = await sandboxOf(sandbox0, call);
      await setNetwork(sandbox0.service, sandbox, { requested, timeoutMilliseconds, signal });
      return success(body);
    },
  }),
];

/**
 * The annotation with the egress rules of a client; undefined if there are none. In Sandbox0 the first rule that matches decides; here
 * rules that deny do.
 * @throws RametError `InvalidArgument`; `NotSupported`, naming the field
 */
export function egressAnnotation({ mode, egress = {}, credentialBindings }: Network): string | undefined {
  checkSupported({ credentialBindings, ...egress });
  const rules = egress.trafficRules?.length ? egress.trafficRules : legacyRules({ mode, egress });
  const firstAllow = rules.findIndex(({ action }) => action === "allow");
  if (firstAllow >= 0 && rules.findLastIndex(({ action }) => action === "deny") > firstAllow)
    throw unsupported(
      "egress.trafficRules: a rule that denies after one that allows",
      "Begin with the rules that deny",
    );
  const textsOf = (action: TrafficRule["action"]) =>
    rules.filter((each) => each.action === action).flatMap(destinationsOf);
  const [allow, deny] = [textsOf("allow"), textsOf("deny")];
  if (mode === "allow-all" && deny.length === 0) return undefined;
  const otherwise = mode === "allow-all" ? { default: "allow", allow: [] } : { default: "deny", allow };
  const { data, error } = EgressRules.safeParse({ ...otherwise, deny });
  if (data !== undefined) return JSON.stringify(data);
  throw new RametError("InvalidArgument", `network: ${error.issues[0]?.message ?? "it is not valid"}`);
}

function checkSupported(given: Readonly<Record<string, unknown>>): void {
  for (const [field, hint] of [
    ["credentialBindings", "Declare credentials in the template"],
    ["credentialRules", "Declare credentials in the template"],
    ["protocolRules", "Allow or deny destinations and ports"],
    ["proxy", "Declare a proxy in the template"],
  ] as const) {
    const value = given[field];
    if (Array.isArray(value) ? value.length > 0 : value !== undefined) throw unsupported(field, hint);
  }
}

/** Sandbox0 ignores the lists that its mode does not name. */
function legacyRules({ mode, egress = {} }: Pick<Network, "mode" | "egress">): TrafficRule[] {
  if (mode === "block-all") {
    const { allowedCidrs: cidrs = [], allowedDomains: domains = [], allowedPorts: ports = [] } = egress;
    return cidrs.length + domains.length + ports.length === 0 ? [] : [{ action: "allow", cidrs, domains, ports }];
  }
  const { deniedCidrs = [], deniedDomains = [], deniedPorts = [] } = egress;
  return [{ cidrs: deniedCidrs }, { domains: deniedDomains }, { ports: deniedPorts }].flatMap((rule) =>
    Object.values(rule).flat().length === 0 ? [] : [{ action: "deny" as const, ...rule }],
  );
}

/** The destinations of a rule as rules of Ramet. One without destinations matches every one. */
function destinationsOf({ cidrs = [], domains = [], ports = [], appProtocols = [] }: TrafficRule): string[] {
  if (appProtocols.length > 0) throw unsupported("egress.trafficRules.appProtocols", "Name ports");
  if (cidrs.length > 0 && domains.length > 0)
    throw unsupported("Both addresses and domains in one rule", "Make a rule of each");
  const hosts = [...cidrs, ...domains].length === 0 ? ["*"] : [...cidrs, ...domains];
  const numbers = ports.map(portOf);
  return hosts.flatMap((host) => (numbers.length === 0 ? [host] : numbers.map((port) => `${host}:${port}`)));
}

function portOf({ port, protocol = "tcp", endPort = port }: PortSpec): number {
  if (endPort !== port) throw unsupported("A range of ports", "Name each port");
  if (protocol !== "tcp") throw unsupported(`The protocol ${protocol}`, "Sandboxes have outgoing TCP connections only");
  return port;
}

function unsupported(what: string, hint: string): RametError {
  return new RametError("NotSupported", `network: ${what} is not supported`, { hint });
}

/** What was requested for a sandbox, also by others, who can write the annotation. */
export function networkView(sandbox: Sandbox): Network {
  const {
    default: otherwise,
    allow = [],
    deny = [],
  } = jsonAnnotation(sandbox, annotations.egress, EgressRules) ?? ({} as Partial<EgressRules>);
  const mode = otherwise === "deny" ? "block-all" : "allow-all";
  const trafficRules = [
    ...deny.map((text) => trafficRule("deny", text)),
    ...(mode === "block-all" ? allow.map((text) => trafficRule("allow", text)) : []),
  ];
  return { mode, ...(trafficRules.length > 0 && { egress: { trafficRules } }) };
}

function trafficRule(action: "allow" | "deny", text: string): TrafficRule {
  const [host = "", port] = text.split(":");
  const rule = parseEgressRule(text);
  const isDomain = typeof rule !== "string" && isName(rule);
  return {
    action,
    ...defined({
      cidrs: isDomain || host === "*" ? undefined : [host],
      domains: isDomain ? [host] : undefined,
      ports: port === undefined ? undefined : [{ port: Number(port) }],
    }),
  };
}
