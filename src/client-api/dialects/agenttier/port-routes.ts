import type { FastifyRequest } from "fastify";
import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations, jsonAnnotation } from "../../../api/names/labels.ts";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { originOf } from "../../routes/serve-routes.ts";
import { changeNewest } from "../../service/lifecycle.ts";
import { type AgentTier, type AgentTierRoute, route, type SandboxCall, sandboxOf } from "./call.ts";
import { NewPort, Port } from "./schemas.ts";

const ForwardedPort = z
  .object({
    port: z.int(),
    protocol: z.string(),
    previewUrl: z.string().describe("Needs the API key in the header X-API-Key."),
  })
  .meta({ id: "ForwardedPort" });

const mostPorts = 100;

export const portRoutes: readonly AgentTierRoute[] = [
  route("GET", "/sandboxes/:id/ports", {
    summary: "Lists the forwarded ports of a sandbox.",
    needs: needs.read,
    answers: { 200: z.object({ ports: z.array(ForwardedPort) }) },
    handle: async (agentTier, call) => {
      const sandbox = await sandboxOf(agentTier, call);
      return { ports: portsOf(sandbox).map((port) => viewOf(call.request, sandbox, port)) };
    },
  }),
  route("POST", "/sandboxes/:id/ports", {
    summary: "Forwards a port of a sandbox to its preview address.",
    needs: needs.change,
    body: NewPort,
    answers: { 201: ForwardedPort },
    handle: async (agentTier, call) => {
      const { port, protocol } = call.body;
      if (protocol !== "http") throw new RametError("NotSupported", `protocol ${protocol} is not supported: use http`);
      const sandbox = await sandboxOf(agentTier, call);
      await changePorts(agentTier, sandbox, call.signal, (ports) => {
        const others = ports.filter((each) => each !== port);
        if (others.length < mostPorts) return [...others, port];
        throw new RametError("InvalidArgument", `A sandbox has at most ${mostPorts} ports`);
      });
      return viewOf(call.request, sandbox, port);
    },
  }),
  route("DELETE", "/sandboxes/:id/ports/:port", {
    summary: "Ends the forwarding of a port.",
    needs: needs.change,
    answers: { 204: null },
    handle: async (agentTier, call) => {
      const { sandbox, port } = await forwardedPort(agentTier, call);
      await changePorts(agentTier, sandbox, call.signal, (ports) => ports.filter((each) => each !== port));
    },
  }),
];

/** The sandbox and the port of a request. @throws RametError `NotFound` if the port is not forwarded */
export async function forwardedPort(
  agentTier: AgentTier,
  call: SandboxCall,
): Promise<{ sandbox: Sandbox; port: number }> {
  const port = Port.parse(call.params["port"]);
  const sandbox = await sandboxOf(agentTier, call);
  if (!portsOf(sandbox).includes(port)) throw new RametError("NotFound", `port ${port} is not forwarded`);
  return { sandbox, port };
}

const Ports = z.array(z.int().min(1).max(65_535));

function portsOf(sandbox: Sandbox): number[] {
  return jsonAnnotation(sandbox, annotations.clientPorts, Ports) ?? [];
}

async function changePorts(
  { service }: AgentTier,
  found: Sandbox,
  signal: AbortSignal,
  change: (ports: number[]) => number[],
): Promise<void> {
  const changePortsOf = (sandbox: Sandbox) => {
    const ports = change(portsOf(sandbox));
    const text = ports.length === 0 ? null : JSON.stringify(ports);
    return { metadata: { annotations: { [annotations.clientPorts]: text } } };
  };
  await changeNewest(service, found, changePortsOf, signal);
}

function viewOf(request: FastifyRequest, { metadata }: Sandbox, port: number): z.infer<typeof ForwardedPort> {
  const path = `/api/v1/sandboxes/${metadata.name}/preview/${port}/`;
  return { port, protocol: "http", previewUrl: `${originOf(request)}${path}` };
}
