import type { FastifyRequest } from "fastify";
import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import { RametError } from "../../../base/errors.ts";
import { retryConflicts } from "../../../kube/apply.ts";
import { readNewest } from "../../service/cache-lag.ts";
import { needs } from "../../keys/needs.ts";
import { type AgentTier, type AgentTierRoute, type Call, route } from "./call.ts";
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
  route({
    method: "GET",
    path: "/sandboxes/:id/ports",
    summary: "Lists the forwarded ports of a sandbox.",
    needs: needs.read,
    answers: { 200: z.object({ ports: z.array(ForwardedPort) }) },
    handle: async (agentTier, call) => {
      const sandbox = await agentTier.sandboxOf(call);
      return { ports: portsOf(sandbox).map((port) => viewOf(call.request, sandbox, port)) };
    },
  }),
  route({
    method: "POST",
    path: "/sandboxes/:id/ports",
    summary: "Forwards a port of a sandbox to its preview address.",
    needs: needs.change,
    body: NewPort,
    answers: { 201: ForwardedPort },
    handle: async (agentTier, call) => {
      const { port, protocol } = call.body;
      if (protocol !== "http") throw new RametError("NotSupported", `protocol ${protocol} is not supported: use http`);
      const sandbox = await agentTier.sandboxOf(call);
      await changePorts(agentTier, sandbox, call.signal, (ports) => {
        const others = ports.filter((each) => each !== port);
        if (others.length < mostPorts) return [...others, port];
        throw new RametError("InvalidArgument", `A sandbox has at most ${mostPorts} ports`);
      });
      return call.reply.code(201).send(viewOf(call.request, sandbox, port));
    },
  }),
  route({
    method: "DELETE",
    path: "/sandboxes/:id/ports/:port",
    summary: "Ends the forwarding of a port.",
    needs: needs.change,
    answers: { 204: null },
    handle: async (agentTier, call) => {
      const { sandbox, port } = await forwardedPort(agentTier, call);
      await changePorts(agentTier, sandbox, call.signal, (ports) => ports.filter((each) => each !== port));
      return call.reply.code(204).send();
    },
  }),
];

/** The sandbox and the port of a request. @throws RametError `NotFound` if the port is not forwarded */
export async function forwardedPort(
  agentTier: Pick<AgentTier, "sandboxOf">,
  call: Pick<Call, "request" | "caller" | "signal">,
): Promise<{ sandbox: Sandbox; port: number }> {
  const port = Port.parse((call.request.params as { port?: string }).port);
  const sandbox = await agentTier.sandboxOf(call);
  if (!portsOf(sandbox).includes(port)) throw new RametError("NotFound", `port ${port} is not forwarded`);
  return { sandbox, port };
}

const Ports = z.array(z.int().min(1).max(65_535));

/** Users can write the annotation, so it can hold anything. */
export function portsOf({ metadata }: Sandbox): number[] {
  try {
    return Ports.parse(JSON.parse(metadata.annotations?.[annotations.clientPorts] ?? "[]"));
  } catch {
    return [];
  }
}

/** Changes the ports, and again if a request for another port came in between. */
async function changePorts(
  { service }: AgentTier,
  found: Sandbox,
  signal: AbortSignal,
  change: (ports: number[]) => number[],
): Promise<void> {
  await retryConflicts(async (number) => {
    if (number > 1) await readNewest(service, found, signal);
    const sandbox = number > 1 ? (service.sandboxes.current(found.metadata.uid) ?? found) : found;
    const ports = change(portsOf(sandbox));
    const text = ports.length === 0 ? null : JSON.stringify(ports);
    const { resourceVersion } = sandbox.metadata;
    const metadata = { annotations: { [annotations.clientPorts]: text }, resourceVersion };
    await service.objects.sandboxes.patch(sandbox, { metadata });
  });
}

function viewOf(request: FastifyRequest, { metadata }: Sandbox, port: number): z.infer<typeof ForwardedPort> {
  const path = `/api/v1/sandboxes/${metadata.name}/preview/${port}/`;
  return { port, protocol: "http", previewUrl: `${originOf(request)}${path}` };
}

/** The address at which the client has reached the server. Only the client itself uses it. */
function originOf({ headers, protocol, host }: FastifyRequest): string {
  return `${headers["x-forwarded-proto"] === "https" ? "https" : protocol}://${host}`;
}
