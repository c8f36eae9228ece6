import * as z from "zod";
import { RametError } from "../../base/errors.ts";

/** How addresses of one kind of store are written: `scheme://host/prefix?parameter=…`. */
interface StoreScheme<Location> {
  /** Without `://`. */
  scheme: string;
  /** The field that stands in the host's place; `prefix` stands in the path. */
  host: string;
  /** The fields that stand after `?`, by their names there. */
  parameters: Readonly<Record<string, string>>;
  location: z.ZodType<Location>;
  /** What people call such a store. */
  called: string;
  /** What to write, in place of what is no address. */
  example: string;
}

/** Below which keys a store lies, without slashes at its ends. */
const Prefix = z
  .string()
  .max(256)
  .regex(/^[-_A-Za-z0-9][-_.A-Za-z0-9]*(\/[-_A-Za-z0-9][-_.A-Za-z0-9]*)*$/, "must be names with slashes between them");

/** A server's URL, which may have a path. */
const ServiceUrl = z
  .url({ protocol: /^https?$/, error: "must be an http or https URL" })
  .refine((text) => new URL(text).username === "", "must have no user: keys come from the environment");

/** Where a store is that is not at its cloud's usual place. */
const Endpoint = ServiceUrl.refine((text) => ["", "/"].includes(new URL(text).pathname), "must have no path");

/** A container of Azure Blob, and the part of it that is the store. */
export const AzureLocation = z.strictObject({
  driver: z.literal("azure"),
  account: z.string().regex(/^[a-z0-9]{3,24}$/, "must be a storage account's name"),
  container: z.string().regex(/^(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*$/, "must be a container's name"),
  /** Absent: the store has the whole container. */
  prefix: Prefix.optional(),
  /** The account's, which an emulator has in its path. @default `https://<account>.blob.core.windows.net` */
  endpoint: ServiceUrl.optional(),
});
export type AzureLocation = z.infer<typeof AzureLocation>;

/** `azblob://container/prefix?account=…&endpoint=…`, of which prefix and endpoint may be left out. */
const azureScheme: StoreScheme<AzureLocation> = {
  scheme: "azblob",
  host: "container",
  parameters: { account: "account", endpoint: "endpoint" },
  location: AzureLocation,
  called: "the store in Azure",
  example: "azblob://container/prefix?account=name, and endpoint=https://… where that is not at blob.core.windows.net",
};

/** A bucket of Google Cloud Storage, and the part of it that is the store. */
export const GcsLocation = z.strictObject({
  driver: z.literal("gcs"),
  bucket: z.string().regex(/^[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]$/, "must be a bucket's name"),
  /** Absent: the store has the whole bucket. */
  prefix: Prefix.optional(),
  /** Of an emulator, or of a cloud of its own. @default Google's */
  endpoint: Endpoint.optional(),
});
export type GcsLocation = z.infer<typeof GcsLocation>;

/** `gs://bucket/prefix?endpoint=…`, of which all but the bucket may be left out. */
const gcsScheme: StoreScheme<GcsLocation> = {
  scheme: "gs",
  host: "bucket",
  parameters: { endpoint: "endpoint" },
  location: GcsLocation,
  called: "the store in Google Cloud Storage",
  example: "gs://bucket/prefix",
};

/** A bucket of S3, or of a store that speaks its protocol, and the part of it that is the store. */
export const S3Location = z.strictObject({
  driver: z.literal("s3"),
  bucket: z.string().regex(/^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$/, "must be a bucket's name"),
  /** Absent: the store has the whole bucket. */
  prefix: Prefix.optional(),
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

/** `s3://bucket/prefix?region=…&endpoint=…&path-style=true`, of which all but the bucket may be left out. */
const s3Scheme: StoreScheme<S3Location> = {
  scheme: "s3",
  host: "bucket",
  parameters: { region: "region", endpoint: "endpoint", "path-style": "pathStyle" },
  location: S3Location,
  called: "the store in S3",
  example: "s3://bucket/prefix?region=eu-central-1, and endpoint=https://… where the store is not Amazon's",
};

/** A place in an object store, told apart by the client that speaks to it. */
export type StoreLocation = S3Location | GcsLocation | AzureLocation;

const schemes: { [Driver in StoreLocation["driver"]]: StoreScheme<Extract<StoreLocation, { driver: Driver }>> } = {
  s3: s3Scheme,
  gcs: gcsScheme,
  azure: azureScheme,
};

/** Whether a text is meant as an address, and not as a folder. */
export function isStoreAddress(text: string): boolean {
  return Object.values(schemes).some(({ scheme }) => text.startsWith(`${scheme}:`));
}

/**
 * The place that an address names: `scheme://host/prefix?parameter=…`.
 * @throws RametError `InvalidArgument`
 */
export function parseStoreAddress(text: string): StoreLocation {
  const driver = drivers.find((each) => text.startsWith(`${schemes[each].scheme}://`));
  const url = driver !== undefined && URL.canParse(text) ? new URL(text) : undefined;
  if (driver === undefined || url === undefined) throw illegal(text, `it is no URL that begins with ${beginnings}`);
  const { host, parameters } = schemes[driver];
  const refused = (why: string) => illegal(text, why, driver);
  if (url.username !== "") throw refused("it has a user: keys come from the environment");
  const given: Record<string, unknown> = { driver, [host]: url.host };
  if (url.pathname.length > 1) given["prefix"] = url.pathname.slice(1);
  for (const [name, value] of url.searchParams) {
    const field = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
    if (field === undefined) throw refused(`it has ${name}, and may have ${Object.keys(parameters).join(", ")}`);
    given[field] = flags.get(value) ?? value;
  }
  return checked(driver, given, refused);
}

/** The address of a place: what `parseStoreAddress` reads. @throws RametError `InvalidArgument`, naming the field that is not legal */
export function formatStoreAddress(location: StoreLocation): string {
  const { parameters, called } = schemes[location.driver];
  const refused = (why: string) => new RametError("InvalidArgument", `${called}: ${why}`);
  const fields: Fields = checked(location.driver, location, refused);
  const query = new URLSearchParams();
  for (const [name, field] of Object.entries(parameters)) {
    if (fields[field] !== undefined) query.set(name, String(fields[field]));
  }
  const text = query.toString();
  return `${nameOfStore(location)}${text === "" ? "" : `?${text}`}`;
}

/** What people call a place: its address without how to get there. */
export function nameOfStore(location: StoreLocation): string {
  const { scheme, host } = schemes[location.driver];
  const fields: Fields = location;
  return `${scheme}://${fields[host]}${location.prefix === undefined ? "" : `/${location.prefix}`}`;
}

type Fields = Readonly<Record<string, string | boolean | undefined>>;

const drivers = Object.keys(schemes) as StoreLocation["driver"][];
const beginnings = drivers.map((driver) => `${schemes[driver].scheme}://`).join(" or ");

const flags = new Map([
  ["true", true],
  ["false", false],
]);

function checked(driver: StoreLocation["driver"], given: unknown, refused: (why: string) => RametError): StoreLocation {
  const result = schemes[driver].location.safeParse(given);
  if (result.success) return result.data;
  const { path, message } = result.error.issues[0] ?? { path: [], message: "is not legal" };
  throw refused(`${path.join(".")} ${message}`);
}

function illegal(text: string, why: string, driver?: StoreLocation["driver"]): RametError {
  const examples = (driver === undefined ? drivers : [driver]).map((each) => schemes[each].example);
  return new RametError("InvalidArgument", `${withoutUser(text)} is no store's address: ${why}`, {
    hint: `Write ${examples.join("; or ")}`,
  });
}

/** Somebody may have written keys there. */
function withoutUser(text: string): string {
  return text.replace(/\/\/[^/@]*@/, "//…@");
}
