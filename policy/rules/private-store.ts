import * as z from "zod";
import { defineRule, type PolicyResource } from "../rule.ts";

/** Checkpoints contain the memory of sandboxes, so read access to the store exposes every secret in them. */
export const privateStore = defineRule({
  name: "ramet-private-store",
  description: "Buckets and containers of the stack must not be public.",
  remedy: "Grant access to identities, not to everyone. Add a bucket without checkpoints to exempt.",
  settings: {},
  validate: (resource) => {
    const [cloud = "", module = "", name = ""] = resource.type.split(":");
    const found = validators.get(`${cloud} ${name}`) ?? validators.get(`${cloud} ${module} ${name}`);
    return (found?.(resource.inputs) ?? []).map((what) => `it is public: ${what}`);
  },
});

type Validator = (inputs: PolicyResource["inputs"]) => string[];

/**
 * By provider and class. The module is added only where it distinguishes classes, because with some providers it
 * contains an API version.
 */
const validators: ReadonlyMap<string, Validator> = new Map<string, Validator>([
  // https://docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html: canned ACLs and predefined groups
  ["aws Bucket", validateAcl],
  ["aws BucketV2", validateAcl],
  ["aws BucketAcl", validateAcl],
  ["aws BucketAclV2", validateAcl],
  ["aws BucketPublicAccessBlock", validateAccessBlock],
  ["aws BucketPolicy", validateBucketPolicy],
  // https://cloud.google.com/storage/docs/access-control/making-data-public and .../access-control/lists
  ["gcp BucketIAMMember", validateMembers],
  ["gcp BucketIAMBinding", validateMembers],
  ["gcp BucketIAMPolicy", validateIamPolicy],
  ["gcp BucketAccessControl", validateMembers],
  ["gcp DefaultObjectAccessControl", validateMembers],
  ["gcp BucketACL", validateAcl],
  // https://learn.microsoft.com/azure/storage/blobs/anonymous-read-access-configure
  [
    "azure-native StorageAccount",
    ({ allowBlobPublicAccess }) => violationIf(allowBlobPublicAccess === true, "allowBlobPublicAccess"),
  ],
  [
    "azure-native BlobContainer",
    ({ publicAccess }) => violationIf(isWord(publicAccess) && publicAccess !== "None", "publicAccess"),
  ],
  // The classic provider, which allows public blobs unless the account forbids them.
  [
    "azure storage/account Account",
    ({ allowNestedItemsToBePublic }) =>
      violationIf(allowNestedItemsToBePublic !== false, "allowNestedItemsToBePublic is not false"),
  ],
  [
    "azure storage/container Container",
    ({ containerAccessType }) =>
      violationIf(isWord(containerAccessType) && containerAccessType !== "private", "containerAccessType"),
  ],
]);

function validateAcl(inputs: PolicyResource["inputs"]): string[] {
  const { acl, predefinedAcl, accessControlPolicy, grants: ofBucket = [] } = Acl.parse(inputs);
  const word = acl ?? predefinedAcl;
  const everybody = /^(?:public|authenticated)-?read/i;
  const grantees = [...ofBucket, ...(accessControlPolicy?.grants ?? []).map(({ grantee }) => grantee)];
  return [
    ...violationIf(word !== undefined && everybody.test(word), `the ACL ${word ?? ""}`),
    ...violationIf(
      grantees.some((grantee) => /\/(?:AllUsers|AuthenticatedUsers)$/.test(grantee?.uri ?? "")),
      "a grant to a group of all users",
    ),
  ];
}

/** Missing settings of a block default to false. */
function validateAccessBlock(inputs: PolicyResource["inputs"]): string[] {
  const all = ["blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"];
  return all.filter((key) => inputs[key] !== true).map((key) => `${key} is not true`);
}

/** A condition may restrict access to an organization or a network, which only a person can assess. */
function validateBucketPolicy({ policy }: PolicyResource["inputs"]): string[] {
  const { Statement } = BucketPolicy.parse(typeof policy === "string" ? JSON.parse(policy) : policy);
  const isOpen = [Statement].flat().some(({ Effect, Principal, Condition }) => {
    const principals = typeof Principal === "string" ? [Principal] : [Principal?.AWS ?? []].flat();
    return Effect === "Allow" && Condition === undefined && principals.includes("*");
  });
  return violationIf(isOpen, 'a statement allows the principal "*" without a condition');
}

function validateMembers(inputs: PolicyResource["inputs"]): string[] {
  const { member, members = [], entity } = Members.parse(inputs);
  return [member, entity, ...members]
    .filter((one) => one === "allUsers" || one === "allAuthenticatedUsers")
    .map(String);
}

function validateIamPolicy({ policyData }: PolicyResource["inputs"]): string[] {
  const { bindings } = IamPolicy.parse(typeof policyData === "string" ? JSON.parse(policyData) : policyData);
  return bindings.flatMap(validateMembers);
}

function violationIf(isSo: boolean, what: string): string[] {
  return isSo ? [what] : [];
}

function isWord(value: unknown): value is string {
  return typeof value === "string";
}

const Grantee = z.object({ uri: z.string().optional() });
const Acl = z.object({
  acl: z.string().optional(),
  predefinedAcl: z.string().optional(),
  /** Grants of the bucket itself, in BucketV2. */
  grants: z.array(Grantee).optional(),
  accessControlPolicy: z.object({ grants: z.array(z.object({ grantee: Grantee.optional() })).optional() }).optional(),
});
const Words = z.union([z.string(), z.array(z.string())]);
const Statement = z.object({
  Effect: z.string(),
  Principal: z.union([z.string(), z.object({ AWS: Words.optional() })]).optional(),
  Condition: z.unknown().optional(),
});
const BucketPolicy = z.object({ Statement: z.union([Statement, z.array(Statement)]) });
const Members = z.object({
  member: z.string().optional(),
  members: z.array(z.string()).optional(),
  entity: z.string().optional(),
});
const IamPolicy = z.object({ bindings: z.array(z.object({ members: z.array(z.string()).optional() })).default([]) });
