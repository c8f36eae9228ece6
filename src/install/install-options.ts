import * as z from "zod";
import { RametError } from "../base/errors.ts";
import { parseImageReference } from "../api/names/image-reference.ts";
import { parseStoreAddress } from "../api/store/store-address.ts";
import { accessFields, identities, identityFields, type RemoteStore } from "./remote-store.ts";

/** Texts and counts that a Pulumi program does not know yet are of its own types. */
export interface InstallOptions<Text = string, Count = number> {
  /** Of the controllers. Their lease and the key of the cells are in `ramet-system` in any case. */
  namespace: string;
  /** Of the controllers' Deployment and ClusterRole: who declares them. */
  annotations?: Record<string, string>;
  /** The image with the command `ramet`, of controllers and gateways. */
  image: Text;
  /** The image of the cell, in which sandboxes run. */
  cellImage: Text;
  /** How many controllers stand by; one of them works. */
  replicas: Count;
  /** How many gateways work. */
  gatewayReplicas: Count;
  store: MountedStore<Text> | RemoteStore<Text>;
  /** IPv4 ranges of the cluster's Pods, Services and nodes, which sandboxes do not reach. */
  clusterRanges: readonly Text[];
}

/** A PersistentVolumeClaim of the namespace, and where it is mounted. */
export interface MountedStore<Text = string> {
  directory: Text;
  claim: Text;
}

/** The fields that can be wrong, by their paths. */
export type InstallField = keyof typeof fields;

type FieldNames = Readonly<Record<InstallField, string>>;

/**
 * Install options as a person has given them.
 * @param fieldNames what the person calls a field
 * @throws RametError `InvalidArgument`, naming the first that is not legal
 */
export function parseInstallOptions({ store, ...given }: InstallOptions, fieldNames: FieldNames): InstallOptions {
  const legal = <Field extends InstallField>(field: Field, value: unknown) =>
    parseInstallField(field, value, fieldNames[field]);
  return {
    namespace: legal("namespace", given.namespace),
    image: legal("image", given.image),
    cellImage: legal("cellImage", given.cellImage),
    replicas: legal("replicas", given.replicas),
    gatewayReplicas: legal("gatewayReplicas", given.gatewayReplicas),
    clusterRanges: given.clusterRanges.map((range) => legal("clusterRanges", range)),
    store:
      "address" in store
        ? legalRemote(store, fieldNames)
        : { directory: legal("store.directory", store.directory), claim: legal("store.claim", store.claim) },
  };
}

function legalRemote(store: RemoteStore, fieldNames: FieldNames): RemoteStore {
  const legal = (field: keyof RemoteStore) =>
    parseInstallField(`store.${field}`, store[field], fieldNames[`store.${field}`]);
  const given = accessFields.filter((field) => store[field] !== undefined);
  const parsed = { ...Object.fromEntries(given.map((field) => [field, legal(field)])), address: legal("address") };
  const { driver } = parseStoreAddress(parsed.address);
  const foreign = identityFields.find((field) => store[field] !== undefined && identities[field].driver !== driver);
  if (foreign === undefined) return parsed;
  const why = `${fieldNames[`store.${foreign}`]} is for a store of another cloud than ${parsed.address}`;
  throw new RametError("InvalidArgument", why);
}

/** One of them. @throws RametError `InvalidArgument` */
export function parseInstallField<Field extends InstallField>(
  field: Field,
  value: unknown,
  name: string = field,
): z.output<(typeof fields)[Field]> {
  const result = fields[field].safeParse(value);
  if (result.success) return result.data as z.output<(typeof fields)[Field]>;
  throw new RametError("InvalidArgument", `${name} ${result.error.issues[0]?.message ?? "is not legal"}`);
}

const Image = z.string().refine((text) => parseImageReference(text) !== undefined, {
  error: ({ input }) => `is no image's name: ${JSON.stringify(input)}`,
});
const Label = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, {
  error: ({ input }) => `is no DNS label: ${JSON.stringify(input)}`,
});
const ObjectName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/, {
    error: ({ input }) => `is no object's name: ${JSON.stringify(input)}`,
  });
// A container has no volume at a path with a colon.
const Directory = z.string().regex(/^\/[^:]*[^:/]$/, {
  error: ({ input }) => `is no absolute path of a folder: ${JSON.stringify(input)}`,
});

const StoreAddress = z.string().superRefine((text, context) => {
  try {
    parseStoreAddress(text);
  } catch (error) {
    context.addIssue(`is refused: ${RametError.from(error).message}`);
  }
});
const RoleArn = z.string().regex(/^arn:aws[-a-z]*:iam::\d{12}:role\/[-\w+=,.@/]+$/, {
  error: ({ input }) => `is no ARN of an IAM role: ${JSON.stringify(input)}`,
});
const ServiceAccount = z.string().regex(/^[-.a-z0-9]+@[-.:a-z0-9]+\.gserviceaccount\.com$/, {
  error: ({ input }) => `is no email of a Google service account: ${JSON.stringify(input)}`,
});

const EntraId = z.guid({ error: ({ input }) => `is no id of Entra ID: ${JSON.stringify(input)}` });

const fields = {
  namespace: Label,
  image: Image,
  cellImage: Image,
  replicas: z.int("must be a whole number").min(1, "must be at least 1"),
  gatewayReplicas: z.int("must be a whole number").min(0, "must be at least 0"),
  clusterRanges: z.cidrv4({ error: ({ input }) => `is no range of IPv4: ${JSON.stringify(input)}` }),
  "store.directory": Directory,
  "store.claim": ObjectName,
  "store.address": StoreAddress,
  "store.roleArn": RoleArn,
  "store.serviceAccount": ServiceAccount,
  "store.clientId": EntraId,
  "store.tenantId": EntraId,
  "store.secret": ObjectName,
};
