import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations, jsonAnnotation } from "../../../api/names/labels.ts";
import { guestClientPort } from "../../../api/wire/cell-api.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { sandboxIdOf } from "../../service/find-sandbox.ts";
import { changeNewest } from "../../service/lifecycle.ts";
import { envelope, route, type Sandbox0, type Sandbox0Route, sandboxOf, success } from "./call.ts";
import { Service, Services } from "./schemas.ts";

const services = "/api/v1/sandboxes/:id/services";

const ServiceView = Service.extend({
  publishable: z.literal(true),
  public_url: z.string().optional().describe("Of a public service, if the server knows the domain of its gateways."),
}).meta({ id: "SandboxAppServiceView" });

const ServicesView = envelope(
  z.object({
    sandbox_id: z.string(),
    services: z.array(ServiceView),
    exposure_domain: z.string().optional().describe("The domain below which sandboxes have host names."),
  }),
);

/** A service is a port that the program of the sandbox serves. Gateways proxy each port, and a public one without a token. */
export const serviceRoutes: readonly Sandbox0Route[] = [
  route("GET", services, {
    summary: "Lists the services of a sandbox.",
    needs: needs.read,
    answers: { 200: ServicesView },
    handle: async (sandbox0, call) => success(viewOf(sandbox0, await sandboxOf(sandbox0, call))),
  }),
  route("PUT", services, {
    summary:
      "Replaces the services of a sandbox. Gateways proxy the ports of public ones for everyone who knows its id.",
    needs: needs.change,
    body: Services,
    answers: { 200: ServicesView },
    handle: async (sandbox0, call) => {
      const noted = serviceAnnotations(call.body.services);
      const found = await sandboxOf(sandbox0, call);
      const change = () => ({ metadata: { annotations: noted } });
      return success(viewOf(sandbox0, (await changeNewest(sandbox0.service, found, change, call.signal)) ?? found));
    },
  }),
];

/**
 * The annotations with the services of a client.
 * @throws RametError `InvalidArgument`; `NotSupported`, naming the field
 */
export function serviceAnnotations(given: readonly Service[]): Record<string, string | null> {
  for (const service of given) checkSupported(service);
  for (const name of ["id", "port"] as const)
    if (new Set(given.map((each) => each[name])).size < given.length)
      throw new RametError("InvalidArgument", `Two services have the same ${name}`);
  const open = given.filter(({ ingress }) => ingress.public).map(({ port }) => port);
  return {
    [annotations.clientServices]: given.length === 0 ? null : JSON.stringify(given.map((each) => Service.parse(each))),
    [annotations.publicPorts]: open.length === 0 ? null : open.join(","),
  };
}

function checkSupported({ id, port, runtime, health_check: health, ingress }: Service): void {
  const at = `services: ${id}`;
  if (port === guestClientPort) throw new RametError("InvalidArgument", `${at}: the port ${port} is not the sandbox's`);
  const routes = ingress.routes ?? [];
  const isPlain = routes.every(
    ({ path_prefix: path = "/", methods, auth, ...rest }) =>
      path === "/" &&
      (methods ?? []).length === 0 &&
      (auth?.mode ?? "none") === "none" &&
      rest.resume !== true &&
      ["rewrite_prefix", "cors", "rate_limit", "timeout_seconds"].every((field) => (rest[field] ?? null) === null),
  );
  for (const [isAsked, what, hint] of [
    [runtime !== undefined && runtime.type !== "manual", "runtime", "Start the program with a context"],
    [health !== undefined, "health_check", "Ask the program in a context"],
    [!isPlain, "ingress.routes", "A service is a whole port: leave routes out, and call resume before requests"],
  ] as const)
    if (isAsked) throw new RametError("NotSupported", `${at}: ${what} is not supported`, { hint });
}

function viewOf({ domain }: Pick<Sandbox0, "domain">, sandbox: Sandbox) {
  const id = sandboxIdOf(sandbox);
  const given = jsonAnnotation(sandbox, annotations.clientServices, z.array(Service)) ?? [];
  const urlOf = ({ port, ingress }: Service) =>
    domain !== undefined && ingress.public ? `https://${port}-${id}.${domain}` : undefined;
  return {
    sandbox_id: id,
    services: given.map((each) => ({ ...each, publishable: true as const, ...defined({ public_url: urlOf(each) }) })),
    ...defined({ exposure_domain: domain }),
  };
}
