import { z } from "zod";
import { RametError } from "./errors.ts";

const Endpoint = z
  .url({ protocol: /^https?$/, error: "must be an http or https URL" })
  .refine((text) => new URL(text).username === "", "must have no user: keys come from the environment")
  .refine((text) => ["", "/"].includes(new URL(text).pathname), "must have no path");

/** A bucket of S3, or of a store that speaks its protocol, and the part of it that is the store. */
export const S3Location = z.strictObject({
  bucket: z.string().regex(/^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$/, "must be a bucket's name"),
  /** Below which keys the store lies, without slashes at its ends. Absent: it has the whole bucket. */
  prefix: z
    .string()
    .max(256)
    .regex(/^[-_A-Za-z0-9][-_.A-Za-z0-9]*(\/[-_A-Za-z0-9][-_.A-Za-z0-9]*)*$/, "must be names with slashes between them")
    .optional(),
  /** @default what the environment says; `us-east-1` where an endpoint is given */
  region: z
    .string()
    .regex(/^[a-z0-9][-a-z0-9]*$/, "must be a region's name")
    .optional(),
  /** Of a store that is not Amazon's. */
  endpoint: Endpoint.optional(),
  /** The bucket stands in the path of URLs and not in their host. @default whether an endpoint is given */
  pathStyle: z.boolean().optional(),
});
export type S3Location = z.infer<typeof S3Location>;

const parameters = { region: "region", endpoint: "endpoint", "path-style": "pathStyle" } as const;

/**
 * The place that an address names: `s3://bucket/prefix?region=…&endpoint=…&path-style=true`, of which all but the bucket may be
 * left out.
 * @throws RametError `InvalidArgument`
 */
export function parseStoreAddress(text: string): S3Location {
  const url = text.startsWith("s3://") && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) throw illegal(text, "it is no URL that begins with s3://");
  if (url.username !== "") throw illegal(text, "it has a user: keys come from the environment");
  const given: Record<string, unknown> = { bucket: url.host };
  if (url.pathname.length > 1) given["prefix"] = url.pathname.slice(1);
  for (const [name, value] of url.searchParams) {
    if (!Object.hasOwn(parameters, name))
      throw illegal(text, `it has ${name}, and may have ${Object.keys(parameters).join(", ")}`);
    given[parameters[name as keyof typeof parameters]] = flags.get(value) ?? value;
  }
  return checked(given, (why) => illegal(text, why));
}

function illegal(text: string, why: string): RametError {
  return new RametError("InvalidArgument", `${withoutUser(text)} is no store's address: ${why}`, {
    hint: "Write s3://bucket/prefix?region=eu-central-1, and endpoint=https://… where the store is not Amazon's",
  });
}

/** Somebody may have written keys there. */
function withoutUser(text: string): string {
  return text.replace(/\/\/[^/@]*@/, "//…@");
}

const flags = new Map([
  ["true", true],
  ["false", false],
]);

/** The address of a place: what `parseStoreAddress` reads. @throws RametError `InvalidArgument`, naming the field that is not legal */
export function formatStoreAddress(location: S3Location): string {
  const { bucket, prefix, ...rest } = checked(
    location,
    (why) => new RametError("InvalidArgument", `the store in S3: ${why}`),
  );
  const query = new URLSearchParams();
  for (const [name, field] of Object.entries(parameters)) {
    const value = rest[field];
    if (value !== undefined) query.set(name, String(value));
  }
  const text = query.toString();
  return `s3://${bucket}${prefix === undefined ? "" : `/${prefix}`}${text === "" ? "" : `?${text}`}`;
}

function checked(given: unknown, refused: (why: string) => RametError): S3Location {
  const result = S3Location.safeParse(given);
  if (result.success) return result.data;
  const { path, message } = result.error.issues[0] ?? { path: [], message: "is not legal" };
  throw refused(`${path.join(".")} ${message}`);
}

/** What people call a place: its address without how to get there. */
export function nameOfStore({ bucket, prefix }: S3Location): string {
  return formatStoreAddress({ bucket, ...(prefix !== undefined && { prefix }) });
}
