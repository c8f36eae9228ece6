import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { variableProblem } from "./rules.ts";

/**
 * The parts of Kubernetes' PodTemplateSpec that Ramet reads. Other fields pass through unchanged, so that a template for a newer
 * Kubernetes loses nothing. The API server does not validate it, as the CRD of OpenKruise Agents has no schema for it.
 */

const StringMap = z.record(z.string(), z.string());
const Quantity = z.union([z.string(), z.number()]);
const Port = z.union([z.int(), z.string()]);

const EnvVar = z
  .looseObject({
    name: z.string().min(1),
    value: z.string().optional(),
    valueFrom: z.looseObject({}).optional(),
  })
  .check(({ value, issues }) => {
    const message = variableProblem(value.name, value.value ?? "");
    if (message !== undefined) issues.push({ code: "custom", message, input: undefined });
  });

const Handler = z.looseObject({
  exec: z.looseObject({ command: z.array(z.string()).optional() }).optional(),
  httpGet: z.looseObject({ port: Port }).optional(),
  tcpSocket: z.looseObject({ port: Port }).optional(),
  grpc: z.looseObject({ port: z.int() }).optional(),
});
export type Handler = z.infer<typeof Handler>;

const Id = z.int().min(0);
const SecurityContext = z.looseObject({
  runAsUser: Id.optional(),
  runAsGroup: Id.optional(),
  readOnlyRootFilesystem: z.boolean().optional(),
});

const VolumeMount = z.looseObject({
  name: z.string().min(1),
  mountPath: z.string().startsWith("/", "must be an absolute path"),
  readOnly: z.boolean().optional(),
});

const ContainerPort = z.looseObject({
  containerPort: z.int().min(1).max(65535),
  name: z.string().optional(),
  protocol: z.string().optional(),
});

export const Container = z.looseObject({
  name: z.string().min(1),
  image: z.string().min(1, "is required"),
  imagePullPolicy: z.string().optional(),
  command: z.array(z.string()).optional(),
  args: z.array(z.string()).optional(),
  workingDir: z.string().startsWith("/", "must be an absolute path").optional(),
  env: z.array(EnvVar).optional(),
  envFrom: z.array(z.looseObject({ prefix: z.string().optional() })).optional(),
  ports: z.array(ContainerPort).optional(),
  resources: z
    .looseObject({
      limits: z.record(z.string(), Quantity).optional(),
      requests: z.record(z.string(), Quantity).optional(),
    })
    .optional(),
  volumeMounts: z.array(VolumeMount).optional(),
  volumeDevices: z.array(z.looseObject({})).optional(),
  startupProbe: Handler.optional(),
  readinessProbe: Handler.optional(),
  livenessProbe: Handler.optional(),
  lifecycle: z.looseObject({ postStart: Handler.optional(), preStop: Handler.optional() }).optional(),
  securityContext: SecurityContext.optional(),
});
export type Container = z.infer<typeof Container>;

export const Volume = z.looseObject({ name: z.string().min(1) });
export type Volume = z.infer<typeof Volume>;

export const PodSpec = z.looseObject({
  containers: z.array(Container).min(1, "must have a container for the sandbox first"),
  // Sidecars and init containers run unchanged. Kubernetes validates them when the Pod is created, and template-policy.ts before.
  initContainers: z.array(z.looseObject({ name: z.string() })).optional(),
  volumes: z.array(Volume).optional(),
  securityContext: SecurityContext.optional(),
  terminationGracePeriodSeconds: z.int().optional(),
});

export const PodTemplateSpec = z.looseObject({
  metadata: z.looseObject({ labels: StringMap.optional(), annotations: StringMap.optional() }).optional(),
  spec: PodSpec,
});
export type PodTemplateSpec = z.infer<typeof PodTemplateSpec>;

/**
 * Parses the Pod template of a Sandbox or a SandboxTemplate.
 * @param field its path, for the error message
 * @throws RametError `InvalidArgument`, naming the first invalid field
 */
export function parsePodTemplate(template: unknown, field = "spec.template"): PodTemplateSpec {
  const result = PodTemplateSpec.safeParse(withoutNulls(template));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const path = [field, ...(issue?.path ?? [])].reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`),
    "",
  );
  throw new RametError("InvalidArgument", `${path}: ${issue?.message ?? "is not a Pod template"}`, {
    hint: "Correct the field; it has the same meaning as in a Kubernetes Pod template",
    cause: result.error,
  });
}

/** Go decoders treat null as absent, and generators write `creationTimestamp: null` and `resources: null`. */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => (inner === null ? [] : [[key, withoutNulls(inner)]])),
  );
}
