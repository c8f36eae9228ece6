import * as z from "zod";
import { namesMetadata, parseEgressRule } from "../api/egress/egress-rules.ts";
import { isRegistryHost, parseImageReference } from "../api/names/image-reference.ts";
import { parseLabelSelector } from "../api/names/label-selector.ts";
import {
  cellUserNamespaces,
  engineIdPattern,
  nodeDirectoryPattern,
  systemNamespace,
} from "../api/names/system-names.ts";
import { disruptionPolicies, parseCheckpointInterval } from "../api/pod/disruption.ts";
import { type QuotaName, parseLimit } from "../api/quota/namespace-quota.ts";
import { parseStoreAddress } from "../api/store/store-address.ts";
import { RametError } from "../base/errors.ts";
import { parseLayerSize } from "../base/quantity.ts";
import { parseOriginUrl } from "./gateway-address.ts";

/** The values of installations. A setting names its schema. */

export const Image = z.string().refine((text) => parseImageReference(text) !== undefined, not("an image reference"));
export const Registry = z.string().refine(isRegistryHost, not("a registry, such as registry.example:5000"));
export const Label = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, not("a DNS label"));
export const ObjectName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/, not("an object name"));
// Kubernetes does not allow a colon in a mount path.
export const Directory = z.string().regex(/^\/[^:]*[^:/]$/, not("an absolute path of a directory"));
export const NodeDirectory = z.string().regex(nodeDirectoryPattern, not("a directory such as /var/lib/ramet/cache"));
export const StoreAddress = parsedBy(parseStoreAddress, (message) => `is not valid: ${message}`);
export const Selector = parsedBy((text) => parseLabelSelector(text, ""));
export const RoleArn = z
  .string()
  .regex(/^arn:aws[-a-z]*:iam::\d{12}:role\/[-\w+=,.@/]+$/, not("the ARN of an IAM role"));
export const ServiceAccount = z
  .string()
  .regex(/^[-.a-z0-9]+@[-.:a-z0-9]+\.gserviceaccount\.com$/, not("the email address of a Google service account"));
export const EntraId = z.guid(not("an Entra ID identifier"));
export const Rule = z.string().superRefine((text, context) => {
  const rule = parseEgressRule(text);
  if (typeof rule === "string") context.addIssue(`is not an egress rule: ${JSON.stringify(text)}: ${rule}`);
  else if (namesMetadata(rule))
    context.addIssue(`names metadata services or link-local addresses: ${text}; no rule opens them`);
});
export const LayerSize = parsedBy((text) => parseLayerSize(text, ""));
export const Count = atLeast(0);
export const Positive = atLeast(1);
export const StoreBytes = limitOf("storeBytes");
export const Checkpoints = limitOf("checkpoints");
export const Builds = limitOf("builds");
export const Fetches = limitOf("fetches");
export const ClusterRange = z.cidrv4(not("an IPv4 range"));
export const ServedNamespace = Label.refine((text) => text !== systemNamespace, {
  error: `contains ${systemNamespace}, which has the keys of all cells and no sandboxes`,
});
export const EgressDefault = oneOf(["allow", "deny"], "allow or deny");
// The kubelet rejects absolute paths and `..` (Kubernetes API, SeccompProfile.localhostProfile).
export const ProfilePath = z
  .string()
  .regex(/^(?!\/)(?!(.*\/)?\.\.(\/|$)).+$/, not("a path in the kubelet's directory of profiles"));
export const UserNamespaces = oneOf(cellUserNamespaces, "auto, always or never");
export const OnDisruption = oneOf(disruptionPolicies, "Migrate, Pause or End");
export const CheckpointEvery = parsedBy((text) => parseCheckpointInterval(text, ""));
export const EarlierImage = z
  .string()
  .refine(isEarlierImage, not("an engine and its cell image, such as 3fb1c0a9d2e4=registry.example/ramet-cell:1"));
export const Period = z.string().regex(/^\d{1,6}(s|m|h)$/, not("a duration such as 90s, 3m or 1h"));
export const Network = z.union([z.cidrv4(), z.cidrv6()], not("a network, such as 10.0.0.0/16"));
export const GatewayUrl = z
  .string()
  .refine((text) => parseOriginUrl(text) !== undefined, not("the http or https address of a gateway, without a path"));
export const GatewayReference = z
  .string()
  .regex(/^[-.a-z0-9]+(\/[-.a-z0-9]+){1,2}$/, not("a Gateway, such as infra/public or infra/public/https"));
export const ServiceType = oneOf(["ClusterIP", "NodePort", "LoadBalancer"], "ClusterIP, NodePort or LoadBalancer");
export const Certificate = z.string().includes("-----BEGIN CERTIFICATE-----", "contains no certificate in PEM");

/** The error for a value that is not `what`. */
function not(what: string) {
  return { error: ({ input }: { input?: unknown }) => `is not ${what}: ${JSON.stringify(input)}` };
}

function oneOf<const Words extends readonly [string, ...string[]]>(words: Words, listed: string) {
  return z.enum(words, { error: ({ input }) => `is ${JSON.stringify(input)}, not ${listed}` });
}

function atLeast(least: number) {
  return z.int("must be a whole number").min(least, `must be at least ${least}`);
}

/** A text for a parser that throws. @param describe makes the message of the parser a problem of the value */
function parsedBy(
  parse: (text: string) => unknown,
  describe = (message: string) => message.trim(),
  text: z.ZodType<string> = z.string(),
) {
  return text.superRefine((given, context) => {
    try {
      parse(given);
    } catch (error) {
      context.addIssue(describe(RametError.from(error).message));
    }
  });
}

function limitOf(name: QuotaName) {
  // A program gives a number.
  return parsedBy((text) => parseLimit(name, text, ""), undefined, z.coerce.string());
}

function isEarlierImage(text: string): boolean {
  const [engine = "", ...image] = text.split("=");
  return engineIdPattern.test(engine) && parseImageReference(image.join("=")) !== undefined;
}
