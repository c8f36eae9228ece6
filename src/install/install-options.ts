import * as z from "zod";
import { parseRuntimeEgress } from "../api/cell/effective-egress.ts";
import { namesMetadata, parseEgressRule } from "../api/cell/egress-rules.ts";
import { RametError } from "../base/errors.ts";
import { parseImageReference } from "../api/names/image-reference.ts";
import { parseStoreAddress } from "../api/store/store-address.ts";
import { accessFields, identities, identityFields, type RemoteStore } from "./remote-store.ts";

/** The type parameters let Pulumi components pass outputs instead of plain values. */
export interface InstallOptions<Text = string, Count = number> {
  /** The namespace of the controllers. Their lease and the key of the cells are always in `ramet-system`. */
  namespace: string;
  /** Annotations of the controllers' Deployment and ClusterRole, which tell who manages them. */
  annotations?: Record<string, string>;
  /** The image of the controllers and gateways, with the command `ramet`. */
  image: Text;
  /** The image of the cell, which runs a sandbox. */
  cellImage: Text;
  /** The number of controller replicas. One of them is the leader; the others wait. */
  replicas: Count;
  /** The number of gateway replicas. */
  gatewayReplicas: Count;
  store: MountedStore<Text> | RemoteStore<Text>;
  /** The IPv4 ranges of the cluster's Pods, Services and nodes. Sandboxes cannot connect to them. */
  clusterRanges: readonly Text[];
  /** The cluster's DNS domain, whose names sandboxes cannot resolve. @default cluster.local */
  clusterDomain?: Text;
  /** The egress rules of all sandboxes, which namespaces, templates and sandboxes can only narrow. @default allow */
  egress?: InstalledEgress<Text>;
}

export interface InstalledEgress<Text = string> {
  default?: Text | "allow" | "deny" | undefined;
  allow?: readonly Text[] | undefined;
  deny?: readonly Text[] | undefined;
}

/** A PersistentVolumeClaim in the controllers' namespace and its mount path. */
export interface MountedStore<Text = string> {
  directory: Text;
  claim: Text;
}

/** The paths of the fields that are validated. */
export type InstallField = keyof typeof fields;

type FieldNames = Readonly<Record<InstallField, string>>;

/**
 * Validates the install options of a user.
 * @param fieldNames the names of the fields in error messages: flags or arguments
 * @throws RametError `InvalidArgument`, which names the first invalid field
 */
export function parseInstallOptions({ store, ...given }: InstallOptions, fieldNames: FieldNames): InstallOptions {
  const validated = <Field extends InstallField>(field: Field, value: unknown) =>
    parseInstallField(field, value, fieldNames[field]);
  return {
    namespace: validated("namespace", given.namespace),
    image: validated("image", given.image),
    cellImage: validated("cellImage", given.cellImage),
    replicas: validated("replicas", given.replicas),
    gatewayReplicas: validated("gatewayReplicas", given.gatewayReplicas),
    clusterRanges: given.clusterRanges.map((range) => validated("clusterRanges", range)),
    ...(given.clusterDomain !== undefined && { clusterDomain: validated("clusterDomain", given.clusterDomain) }),
    ...(given.egress && {
      egress: parseRuntimeEgress(given.egress, {
        default: fieldNames["egress.default"],
        allow: fieldNames["egress.allow"],
        deny: fieldNames["egress.deny"],
      }),
    }),
    store:
      "address" in store
        ? validateRemoteStore(store, fieldNames)
        : { directory: validated("store.directory", store.directory), claim: validated("store.claim", store.claim) },
  };
}

function validateRemoteStore(store: RemoteStore, fieldNames: FieldNames): RemoteStore {
  const validated = (field: keyof RemoteStore) =>
    parseInstallField(`store.${field}`, store[field], fieldNames[`store.${field}`]);
  const given = accessFields.filter((field) => store[field] !== undefined);
  const parsed = {
    ...Object.fromEntries(given.map((field) => [field, validated(field)])),
    address: validated("address"),
  };
  const { driver } = parseStoreAddress(parsed.address);
  const other = identityFields.find((field) => store[field] !== undefined && identities[field].driver !== driver);
  if (other === undefined) return parsed;
  const why = `${fieldNames[`store.${other}`]} does not apply to ${parsed.address}: it is for another cloud`;
  throw new RametError("InvalidArgument", why);
}

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

const fields = {
  namespace: Label,
  image: Image,
  cellImage: Image,
  replicas: z.int("must be a whole number").min(1, "must be at least 1"),
  gatewayReplicas: z.int("must be a whole number").min(0, "must be at least 0"),
  clusterRanges: z.cidrv4({ error: ({ input }) => `is not an IPv4 range: ${JSON.stringify(input)}` }),
  clusterDomain: ObjectName,
  "egress.default": z.enum(["allow", "deny"], {
    error: ({ input }) => `is ${JSON.stringify(input)}, not allow or deny`,
  }),
  "egress.allow": Rule,
  "egress.deny": Rule,
  "store.directory": Directory,
  "store.claim": ObjectName,
  "store.address": StoreAddress,
  "store.roleArn": RoleArn,
  "store.serviceAccount": ServiceAccount,
  "store.clientId": EntraId,
  "store.tenantId": EntraId,
  "store.secret": ObjectName,
};
