import * as z from "zod";
import { engineIdPattern } from "../api/engine/engine.ts";
import { namesMetadata, parseEgressRule } from "../api/egress/egress-rules.ts";
import { isRegistryHost, parseImageReference } from "../api/names/image-reference.ts";
import { parseLabelSelector } from "../api/names/label-selector.ts";
import { cellUserNamespaces, systemNamespace } from "../api/names/system-names.ts";
import { parseLimit, type QuotaName } from "../api/quota/namespace-quota.ts";
import { parseStoreAddress } from "../api/store/store-address.ts";
import { RametError } from "../base/errors.ts";
import { parseOriginUrl } from "./gateway-address.ts";

/** The paths of the fields that are validated. */
export type InstallField = keyof typeof fields;

export type FieldNames = Readonly<Record<InstallField, string>>;

/** Validates one field. @throws RametError `InvalidArgument` */
export function parseInstallField<Field extends InstallField>(
  field: Field,
  value: unknown,
  name: string = field,
): z.output<(typeof fields)[Field]> {
  const result = fields[field].safeParse(value);
  if (result.success) return result.data as z.output<(typeof fields)[Field]>;
  throw new RametError("InvalidArgument", `${name} ${result.error.issues[0]?.message ?? "is not valid"}`);
}

const Image = z.string().refine((text) => parseImageReference(text) !== undefined, {
  error: ({ input }) => `is not an image reference: ${JSON.stringify(input)}`,
});
function isEarlierImage(text: string): boolean {
  const [engine = "", ...image] = text.split("=");
  return engineIdPattern.test(engine) && parseImageReference(image.join("=")) !== undefined;
}

const Registry = z.string().refine(isRegistryHost, {
  error: ({ input }) => `is not a registry, such as registry.example:5000: ${JSON.stringify(input)}`,
});
const Label = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, {
  error: ({ input }) => `is not a DNS label: ${JSON.stringify(input)}`,
});
const ObjectName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/, {
    error: ({ input }) => `is not an object name: ${JSON.stringify(input)}`,
  });
// Kubernetes does not allow a colon in a mount path.
const Directory = z.string().regex(/^\/[^:]*[^:/]$/, {
  error: ({ input }) => `is not an absolute path of a directory: ${JSON.stringify(input)}`,
});

const StoreAddress = z.string().superRefine((text, context) => {
  try {
    parseStoreAddress(text);
  } catch (error) {
    context.addIssue(`is not valid: ${RametError.from(error).message}`);
  }
});
const Selector = z.string().superRefine((text, context) => {
  try {
    parseLabelSelector(text, "");
  } catch (error) {
    context.addIssue(RametError.from(error).message.trim());
  }
});
const RoleArn = z.string().regex(/^arn:aws[-a-z]*:iam::\d{12}:role\/[-\w+=,.@/]+$/, {
  error: ({ input }) => `is not the ARN of an IAM role: ${JSON.stringify(input)}`,
});
const ServiceAccount = z.string().regex(/^[-.a-z0-9]+@[-.:a-z0-9]+\.gserviceaccount\.com$/, {
  error: ({ input }) => `is not the email address of a Google service account: ${JSON.stringify(input)}`,
});

const EntraId = z.guid({ error: ({ input }) => `is not an Entra ID identifier: ${JSON.stringify(input)}` });

const Rule = z.string().superRefine((text, context) => {
  const rule = parseEgressRule(text);
  if (typeof rule === "string") context.addIssue(`is not an egress rule: ${JSON.stringify(text)}: ${rule}`);
  else if (namesMetadata(rule))
    context.addIssue(`names metadata services or link-local addresses: ${text}; no rule opens them`);
});

const Limit = z.int("must be a whole number").min(1, "must be at least 1");
const limitOf = (name: QuotaName) =>
  z.string().superRefine((text, context) => {
    try {
      parseLimit(name, text, "");
    } catch (error) {
      context.addIssue(RametError.from(error).message.trim());
    }
  });

const fields = {
  namespace: Label,
  image: Image,
  cellImage: Image,
  replicas: z.int("must be a whole number").min(1, "must be at least 1"),
  gatewayReplicas: z.int("must be a whole number").min(0, "must be at least 0"),
  "clientApi.replicas": z.int("must be a whole number").min(1, "must be at least 1"),
  "clientApi.domain": ObjectName,
  clusterRanges: z.cidrv4({ error: ({ input }) => `is not an IPv4 range: ${JSON.stringify(input)}` }),
  clusterDomain: ObjectName,
  namespaceSelector: Selector,
  metricsNamespace: Label,
  servedNamespaces: Label.refine((text) => text !== systemNamespace, {
    error: `contains ${systemNamespace}, which has the keys of all cells and no sandboxes`,
  }),
  "egress.default": z.enum(["allow", "deny"], {
    error: ({ input }) => `is ${JSON.stringify(input)}, not allow or deny`,
  }),
  "egress.allow": Rule,
  "egress.deny": Rule,
  // The kubelet rejects absolute paths and `..` (Kubernetes API, SeccompProfile.localhostProfile).
  "cells.seccompProfile": z.string().regex(/^(?!\/)(?!(.*\/)?\.\.(\/|$)).+$/, {
    error: ({ input }) => `is not a path in the kubelet's directory of profiles: ${JSON.stringify(input)}`,
  }),
  "cells.userNamespaces": z.enum(cellUserNamespaces, {
    error: ({ input }) => `is ${JSON.stringify(input)}, not auto, always or never`,
  }),
  "cells.earlierImages": z.string().refine((text) => isEarlierImage(text), {
    error: ({ input }) =>
      `is not an engine and its cell image, such as 3fb1c0a9d2e4=registry.example/ramet-cell:1: ${JSON.stringify(input)}`,
  }),
  "registries.private": Registry,
  "registries.insecure": Registry,
  "registries.pullTimeout": z.string().regex(/^\d{1,6}(s|m|h)$/, {
    error: ({ input }) => `is not a duration such as 90s, 3m or 1h: ${JSON.stringify(input)}`,
  }),
  "gateway.trustedProxies": z.union([z.cidrv4(), z.cidrv6()], {
    error: ({ input }) => `is not a network, such as 10.0.0.0/16: ${JSON.stringify(input)}`,
  }),
  "gateway.tlsSecret": ObjectName,
  "gateway.url": z.string().refine((text) => parseOriginUrl(text) !== undefined, {
    error: ({ input }) => `is not the http or https address of a gateway, without a path: ${JSON.stringify(input)}`,
  }),
  "gateway.ca": z.string().includes("-----BEGIN CERTIFICATE-----", "contains no certificate in PEM"),
  "gateway.maxConnections": Limit,
  "gateway.maxConnectionsPerClient": Limit,
  "gateway.maxConnectionsPerNamespace": Limit,
  "gateway.maxConnectionsPerSandbox": Limit,
  "namespaceQuota.storeBytes": limitOf("storeBytes"),
  "namespaceQuota.checkpoints": limitOf("checkpoints"),
  "namespaceQuota.builds": limitOf("builds"),
  "namespaceQuota.fetches": limitOf("fetches"),
  "encryption.secret": ObjectName,
  "store.directory": Directory,
  "store.claim": ObjectName,
  "store.address": StoreAddress,
  "store.roleArn": RoleArn,
  "store.serviceAccount": ServiceAccount,
  "store.clientId": EntraId,
  "store.tenantId": EntraId,
  "store.secret": ObjectName,
};
