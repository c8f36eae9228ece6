import * as z from "zod";
import { engineIdPattern } from "../api/engine/engine-id.ts";
import { namesMetadata, parseEgressRule } from "../api/egress/egress-rules.ts";
import { isRegistryHost, parseImageReference } from "../api/names/image-reference.ts";
import { parseLabelSelector } from "../api/names/label-selector.ts";
import { cellUserNamespaces, systemNamespace } from "../api/names/system-names.ts";
import { parseLimit, type QuotaName } from "../api/quota/namespace-quota.ts";
import { parseStoreAddress } from "../api/store/store-address.ts";
import { RametError } from "../base/errors.ts";
import { parseOriginUrl } from "./gateway-address.ts";

/** The values of installations. A setting names its schema. */

export const Image = z.string().refine((text) => parseImageReference(text) !== undefined, {
  error: ({ input }) => `is not an image reference: ${JSON.stringify(input)}`,
});
function isEarlierImage(text: string): boolean {
  const [engine = "", ...image] = text.split("=");
  return engineIdPattern.test(engine) && parseImageReference(image.join("=")) !== undefined;
}

export const Registry = z.string().refine(isRegistryHost, {
  error: ({ input }) => `is not a registry, such as registry.example:5000: ${JSON.stringify(input)}`,
});
export const Label = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, {
  error: ({ input }) => `is not a DNS label: ${JSON.stringify(input)}`,
});
export const ObjectName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/, {
    error: ({ input }) => `is not an object name: ${JSON.stringify(input)}`,
  });
// Kubernetes does not allow a colon in a mount path.
export const Directory = z.string().regex(/^\/[^:]*[^:/]$/, {
  error: ({ input }) => `is not an absolute path of a directory: ${JSON.stringify(input)}`,
});

export const StoreAddress = z.string().superRefine((text, context) => {
  try {
    parseStoreAddress(text);
  } catch (error) {
    context.addIssue(`is not valid: ${RametError.from(error).message}`);
  }
});
export const Selector = z.string().superRefine((text, context) => {
  try {
    parseLabelSelector(text, "");
  } catch (error) {
    context.addIssue(RametError.from(error).message.trim());
  }
});
export const RoleArn = z.string().regex(/^arn:aws[-a-z]*:iam::\d{12}:role\/[-\w+=,.@/]+$/, {
  error: ({ input }) => `is not the ARN of an IAM role: ${JSON.stringify(input)}`,
});
export const ServiceAccount = z.string().regex(/^[-.a-z0-9]+@[-.:a-z0-9]+\.gserviceaccount\.com$/, {
  error: ({ input }) => `is not the email address of a Google service account: ${JSON.stringify(input)}`,
});

export const EntraId = z.guid({ error: ({ input }) => `is not an Entra ID identifier: ${JSON.stringify(input)}` });

export const Rule = z.string().superRefine((text, context) => {
  const rule = parseEgressRule(text);
  if (typeof rule === "string") context.addIssue(`is not an egress rule: ${JSON.stringify(text)}: ${rule}`);
  else if (namesMetadata(rule))
    context.addIssue(`names metadata services or link-local addresses: ${text}; no rule opens them`);
});

const atLeast = (least: number) => z.int("must be a whole number").min(least, `must be at least ${least}`);
export const Count = atLeast(0);
export const Positive = atLeast(1);
const limitOf = (name: QuotaName) =>
  // A program gives a number.
  z.coerce.string().superRefine((text, context) => {
    try {
      parseLimit(name, text, "");
    } catch (error) {
      context.addIssue(RametError.from(error).message.trim());
    }
  });

export const StoreBytes = limitOf("storeBytes");
export const Checkpoints = limitOf("checkpoints");
export const Builds = limitOf("builds");
export const Fetches = limitOf("fetches");
export const ClusterRange = z.cidrv4({ error: ({ input }) => `is not an IPv4 range: ${JSON.stringify(input)}` });
export const ServedNamespace = Label.refine((text) => text !== systemNamespace, {
  error: `contains ${systemNamespace}, which has the keys of all cells and no sandboxes`,
});
export const EgressDefault = z.enum(["allow", "deny"], {
  error: ({ input }) => `is ${JSON.stringify(input)}, not allow or deny`,
});
// The kubelet rejects absolute paths and `..` (Kubernetes API, SeccompProfile.localhostProfile).
export const ProfilePath = z.string().regex(/^(?!\/)(?!(.*\/)?\.\.(\/|$)).+$/, {
  error: ({ input }) => `is not a path in the kubelet's directory of profiles: ${JSON.stringify(input)}`,
});
export const UserNamespaces = z.enum(cellUserNamespaces, {
  error: ({ input }) => `is ${JSON.stringify(input)}, not auto, always or never`,
});
export const EarlierImage = z.string().refine((text) => isEarlierImage(text), {
  error: ({ input }) =>
    `is not an engine and its cell image, such as 3fb1c0a9d2e4=registry.example/ramet-cell:1: ${JSON.stringify(input)}`,
});
export const PullTimeout = z.string().regex(/^\d{1,6}(s|m|h)$/, {
  error: ({ input }) => `is not a duration such as 90s, 3m or 1h: ${JSON.stringify(input)}`,
});
export const Network = z.union([z.cidrv4(), z.cidrv6()], {
  error: ({ input }) => `is not a network, such as 10.0.0.0/16: ${JSON.stringify(input)}`,
});
export const GatewayUrl = z.string().refine((text) => parseOriginUrl(text) !== undefined, {
  error: ({ input }) => `is not the http or https address of a gateway, without a path: ${JSON.stringify(input)}`,
});
export const Certificate = z.string().includes("-----BEGIN CERTIFICATE-----", "contains no certificate in PEM");
