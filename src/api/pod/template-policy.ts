import { RametError } from "../../base/errors.ts";
import { annotations } from "../names/labels.ts";
import type { PodTemplateSpec } from "../schema/pod-template.ts";

/** A field of a Pod template that gives a sandbox power over its node or rights of its namespace. */
export interface RestrictedField {
  /** The name in the namespace's annotation. */
  name: string;
  /**
   * Where the field can be, from the template on. `volumes[]` is each item of a list, and a last step that ends with `*` is
   * each key with this prefix.
   */
  paths: readonly (readonly string[])[];
  /** The values that are allowed everywhere; an absent field always is. */
  harmless: readonly (string | number | boolean)[];
}

/** A field of a template that its namespace does not allow. */
export interface ForbiddenField {
  name: string;
  /** Like `spec.template.spec.volumes[0].hostPath`. */
  path: string;
}

/**
 * Returns the fields of a template that are neither harmless nor allowed: Pod Security's level `baseline`, and what would let
 * the sandbox choose its node, its rights or its neighbours. It applies to the main container too, although Ramet sets that
 * container's securityContext, so that a template never declares a setting without effect.
 *
 * @param allowed names of the fields that the namespace allows
 * @param at the path of the template
 */
export function forbiddenFields(
  template: PodTemplateSpec,
  allowed: ReadonlySet<string>,
  at = "spec.template",
): ForbiddenField[] {
  return restrictedFields
    .filter(({ name }) => !allowed.has(name))
    .flatMap(({ name, paths, harmless }) =>
      paths.flatMap((path) =>
        violations({ value: template, at }, path, harmless).map((found) => ({ name, path: found })),
      ),
    );
}

/**
 * Checks a template against the annotation of the namespace in which its Pod will run.
 * @throws RametError `Forbidden`, naming the first forbidden field, or the first unknown name in the annotation
 */
export function assertTemplateAllowed(
  template: PodTemplateSpec,
  namespace: { name: string; annotations?: Record<string, string> | undefined },
): void {
  const { allowed, unknown } = fieldsAllowedBy(namespace.annotations);
  if (unknown[0] !== undefined) throw unknownName(namespace.name, unknown[0]);
  const [found] = forbiddenFields(template, allowed);
  if (found === undefined) return;
  throw new RametError("Forbidden", `Templates in the namespace ${namespace.name} cannot use ${found.path}`, {
    hint: `Remove the field, or let an administrator add ${found.name} to the annotation ${annotations.allowInTemplates} of the namespace`,
  });
}

/** Reads the comma-separated names in the annotation of a namespace. */
export function fieldsAllowedBy(values: Record<string, string> | undefined): {
  allowed: ReadonlySet<string>;
  unknown: string[];
} {
  const names = (values?.[annotations.allowInTemplates] ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  return { allowed: new Set(names), unknown: names.filter((name) => !restrictedNames.includes(name)) };
}

function unknownName(namespace: string, name: string): RametError {
  const what = `The annotation ${annotations.allowInTemplates} of the namespace ${namespace} names the unknown field ${name}`;
  return new RametError("Forbidden", `${what}, so no sandbox can start there`, {
    hint: `Let an administrator use only these names: ${restrictedNames.join(", ")}`,
  });
}

/** The paths of the values that are not harmless. A value of another shape than the path's is never harmless. */
function violations(
  { value, at }: { value: unknown; at: string },
  [step, ...rest]: readonly string[],
  harmless: RestrictedField["harmless"],
): string[] {
  if (step === undefined) return harmless.some((one) => one === value) ? [] : [at];
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [at];
  const fields = new Map<string, unknown>(Object.entries(value));
  if (step.endsWith("*")) {
    const keys = [...fields.keys()].filter((key) => key.startsWith(step.slice(0, -1)));
    return keys.map((key) => `${at}[${key}]`);
  }
  const key = step.replace(/\[\]$/, "");
  const inner = fields.get(key);
  if (inner === undefined || inner === null) return [];
  if (key === step) return violations({ value: inner, at: `${at}.${key}` }, rest, harmless);
  if (!Array.isArray(inner)) return [`${at}.${key}`];
  return inner.flatMap((item, index) => violations({ value: item, at: `${at}.${key}[${index}]` }, rest, harmless));
}

function inContainers(...path: string[]): string[][] {
  return ["containers[]", "initContainers[]"].map((list) => ["spec", list, ...path]);
}

/** In the securityContext of the Pod and of its containers. */
function inSecurityContexts(...path: string[]): string[][] {
  return [["spec", "securityContext", ...path], ...inContainers("securityContext", ...path)];
}

function inVolumes(...path: string[]): string[][] {
  return [["spec", "volumes[]", ...path]];
}

const unlessTrue = [false];
const handlers = [
  ["livenessProbe"],
  ["readinessProbe"],
  ["startupProbe"],
  ["lifecycle", "postStart"],
  ["lifecycle", "preStop"],
];

/**
 * The one list of restricted fields: controllers check it when they create a Pod, and the admission policy for templates is
 * generated from it. Values are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline.
 */
export const restrictedFields: readonly RestrictedField[] = [
  { name: "hostNetwork", paths: [["spec", "hostNetwork"]], harmless: unlessTrue },
  { name: "hostPID", paths: [["spec", "hostPID"]], harmless: unlessTrue },
  { name: "hostIPC", paths: [["spec", "hostIPC"]], harmless: unlessTrue },
  { name: "hostPath", paths: inVolumes("hostPath"), harmless: [] },
  { name: "hostPorts", paths: inContainers("ports[]", "hostPort"), harmless: [0] },
  // The kubelet sends the request of a probe or a hook from the node.
  {
    name: "probeHost",
    paths: handlers.flatMap((handler) =>
      ["httpGet", "tcpSocket"].flatMap((kind) => inContainers(...handler, kind, "host")),
    ),
    harmless: [""],
  },
  { name: "privileged", paths: inContainers("securityContext", "privileged"), harmless: unlessTrue },
  {
    name: "capabilities",
    paths: inContainers("securityContext", "capabilities", "add[]"),
    harmless: [
      "AUDIT_WRITE",
      "CHOWN",
      "DAC_OVERRIDE",
      "FOWNER",
      "FSETID",
      "KILL",
      "MKNOD",
      "NET_BIND_SERVICE",
      "SETFCAP",
      "SETGID",
      "SETPCAP",
      "SETUID",
      "SYS_CHROOT",
    ],
  },
  { name: "procMount", paths: inContainers("securityContext", "procMount"), harmless: ["", "Default"] },
  {
    name: "seccompProfile",
    paths: inSecurityContexts("seccompProfile", "type"),
    harmless: ["RuntimeDefault", "Localhost"],
  },
  {
    name: "appArmorProfile",
    paths: inSecurityContexts("appArmorProfile", "type"),
    harmless: ["RuntimeDefault", "Localhost"],
  },
  // The form of the same setting before Kubernetes 1.30. Baseline allows some values, for which there is the field.
  {
    name: "appArmorProfile",
    paths: [["metadata", "annotations", "container.apparmor.security.beta.kubernetes.io/*"]],
    harmless: [],
  },
  {
    name: "seLinuxOptions",
    paths: inSecurityContexts("seLinuxOptions", "type"),
    harmless: ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"],
  },
  {
    name: "seLinuxOptions",
    paths: ["user", "role"].flatMap((part) => inSecurityContexts("seLinuxOptions", part)),
    harmless: [""],
  },
  {
    name: "sysctls",
    paths: [["spec", "securityContext", "sysctls[]", "name"]],
    harmless: [
      "kernel.shm_rmid_forced",
      "net.ipv4.ip_local_port_range",
      "net.ipv4.ip_local_reserved_ports",
      "net.ipv4.ip_unprivileged_port_start",
      "net.ipv4.ping_group_range",
      "net.ipv4.tcp_fin_timeout",
      "net.ipv4.tcp_keepalive_intvl",
      "net.ipv4.tcp_keepalive_probes",
      "net.ipv4.tcp_keepalive_time",
      "net.ipv4.tcp_syncookies",
    ],
  },
  { name: "hostProcess", paths: inSecurityContexts("windowsOptions", "hostProcess"), harmless: unlessTrue },
  // All below is more than baseline. The kubelet clones a gitRepo as root of the node.
  { name: "gitRepo", paths: inVolumes("gitRepo"), harmless: [] },
  // Skips the scheduler, and with it taints and resources.
  { name: "nodeName", paths: [["spec", "nodeName"]], harmless: [""] },
  // Sidecars would see the cell's processes and memory.
  { name: "shareProcessNamespace", paths: [["spec", "shareProcessNamespace"]], harmless: unlessTrue },
  // serviceAccount is the deprecated alias. Clouds and webhooks give rights to a Pod by its account.
  {
    name: "serviceAccountName",
    paths: [
      ["spec", "serviceAccountName"],
      ["spec", "serviceAccount"],
    ],
    harmless: ["", "default"],
  },
  {
    name: "serviceAccountToken",
    paths: inVolumes("projected", "sources[]", "serviceAccountToken"),
    harmless: [],
  },
  { name: "podCertificate", paths: inVolumes("projected", "sources[]", "podCertificate"), harmless: [] },
  { name: "ephemeralContainers", paths: [["spec", "ephemeralContainers"]], harmless: [] },
];

/** The names that an administrator can write into the annotation. */
export const restrictedNames: readonly string[] = [...new Set(restrictedFields.map(({ name }) => name))];
