import { z } from "zod";
import type { Handler } from "../../api/schema/pod-template.ts";

const Port = z.union([z.int(), z.string()]);

/** A probe of a container, as the API server has checked it; the defaults are Kubernetes'. */
export const ProbeSpec = z.looseObject({
  httpGet: z
    .looseObject({
      path: z.string().optional(),
      port: Port,
      scheme: z.enum(["HTTP", "HTTPS"]).optional(),
      httpHeaders: z.array(z.object({ name: z.string(), value: z.string() })).optional(),
    })
    .optional(),
  tcpSocket: z.looseObject({ port: Port }).optional(),
  initialDelaySeconds: z.int().default(0),
  periodSeconds: z.int().default(10),
  timeoutSeconds: z.int().default(1),
  successThreshold: z.int().default(1),
  failureThreshold: z.int().default(3),
  terminationGracePeriodSeconds: z.int().optional(),
});
export type ProbeSpec = z.infer<typeof ProbeSpec>;

/** What of a probe's way of asking the local node does not do, in words that go after "the local node". */
export function unsupportedProbe(handler: Handler): { field: string; why: string } | undefined {
  if (handler.exec !== undefined)
    return { field: "exec", why: "runs no commands for probes: use httpGet or tcpSocket" };
  if (handler.grpc !== undefined) return { field: "grpc", why: "speaks no gRPC: use httpGet or tcpSocket" };
  for (const field of ["httpGet", "tcpSocket"] as const) {
    if (handler[field]?.["host"] !== undefined)
      return { field: `${field}.host`, why: "asks the Pod's own address only: leave host out" };
  }
  return undefined;
}
