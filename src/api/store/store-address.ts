import * as z from "zod";
import { RametError } from "../../base/errors.ts";

/** The address syntax of one kind of store: `scheme://host/prefix?parameter=…`. */
interface StoreScheme<Location> {
  /** Without `://`. */
  scheme: string;
  /** The field that the host contains. The path contains `prefix`. */
  host: string;
  /** The fields in the query, by parameter name. */
  parameters: Readonly<Record<string, string>>;
  location: z.ZodType<Location>;
  /** The name of such a store in error messages. */
  label: string;
  /** An example for error messages. */
  example: string;
}

/** The common prefix of all keys of a store, without a slash at either end. */
const Prefix = z
  .string()
  .max(256)
  .regex(/^[-_A-Za-z0-9][-_.A-Za-z0-9]*(\/[-_A-Za-z0-9][-_.A-Za-z0-9]*)*$/, "must be names separated by slashes");

/** The URL of a server. It can have a path. */
const ServiceUrl = z
  .url({ protocol: /^https?$/, error: "must be an http or https URL" })
  .refine((text) => parts(text).username === "", "must not contain a user: credentials come from the environment");

/** The URL of a store that is not at its cloud's default URL. */
const Endpoint = ServiceUrl.refine((text) => ["", "/"].includes(parts(text).pathname), "must not have a path");

/** A refinement also gets a text that is not a URL: zod reports that first, and continues. */
function parts(text: string): Pick<URL, "username" | "pathname"> {
  return URL.canParse(text) ? new URL(text) : { username: "", pathname: "" };
}

/** Allows an endpoint without TLS that is not on this machine: memory images and signed URLs cross the network. */
const allowInsecure = { allowInsecure: z.boolean().optional() };

function requireTls(
  { endpoint, allowInsecure: allowed = false }: { endpoint?: string | undefined; allowInsecure?: boolean | undefined },
  context: z.RefinementCtx,
): void {
  if (endpoint === undefined || allowed || !URL.canParse(endpoint)) return;
  const { protocol, hostname } = new URL(endpoint);
  if (protocol === "https:" || /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)) return;
  context.addIssue({
    code: "custom",
    path: ["endpoint"],
    message:
      "has no TLS, so memory images and signed URLs would cross the network unencrypted; use https, or allow-insecure=true (allowInsecure) on a network that you trust",
  });
}

export const AzureLocation = z
  .strictObject({
    ...allowInsecure,
    driver: z.literal("azure"),
    account: z.string().regex(/^[a-z0-9]{3,24}$/, "must be the name of a storage account"),
    container: z.string().regex(/^(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*$/, "must be the name of a container"),
    /** @default the store uses the whole container */
    prefix: Prefix.optional(),
    /** The account's URL. An emulator has the account in the path. @default `https://<account>.blob.core.windows.net` */
    endpoint: ServiceUrl.optional(),
  })
  .superRefine(requireTls);
export type AzureLocation = z.infer<typeof AzureLocation>;

/** `azblob://container/prefix?account=…&endpoint=…`. Prefix and endpoint are optional. */
const azureScheme: StoreScheme<AzureLocation> = {
  scheme: "azblob",
  host: "container",
  parameters: { account: "account", endpoint: "endpoint", "allow-insecure": "allowInsecure" },
  location: AzureLocation,
  label: "the store in Azure",
  example:
    "azblob://container/prefix?account=name, with &endpoint=https://… for an endpoint other than blob.core.windows.net",
};

/** A store in a bucket of Google Cloud Storage. */
export const GcsLocation = z
  .strictObject({
    ...allowInsecure,
    driver: z.literal("gcs"),
    bucket: z.string().regex(/^[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]$/, "must be the name of a bucket"),
    /** @default the store uses the whole bucket */
    prefix: Prefix.optional(),
    /** The URL of an emulator or a private cloud. @default Google's */
    endpoint: Endpoint.optional(),
  })
  .superRefine(requireTls);
export type GcsLocation = z.infer<typeof GcsLocation>;

/** `gs://bucket/prefix?endpoint=…`. Everything except the bucket is optional. */
const gcsScheme: StoreScheme<GcsLocation> = {
  scheme: "gs",
  host: "bucket",
  parameters: { endpoint: "endpoint", "allow-insecure": "allowInsecure" },
  location: GcsLocation,
  label: "the store in Google Cloud Storage",
  example: "gs://bucket/prefix",
};

/** A store in a bucket of S3, or of a server with the same protocol. */
export const S3Location = z
  .strictObject({
    ...allowInsecure,
    driver: z.literal("s3"),
    bucket: z.string().regex(/^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$/, "must be the name of a bucket"),
    /** @default the store uses the whole bucket */
    prefix: Prefix.optional(),
    /** @default the region of the environment; `us-east-1` with an endpoint */
    region: z
      .string()
      .regex(/^[a-z0-9][-a-z0-9]*$/, "must be the name of a region")
      .optional(),
    /** The URL of a server other than Amazon's. */
    endpoint: Endpoint.optional(),
    /** Whether URLs have the bucket in the path instead of the host. @default true with an endpoint */
    pathStyle: z.boolean().optional(),
  })
  .superRefine(requireTls);
export type S3Location = z.infer<typeof S3Location>;

/** `s3://bucket/prefix?region=…&endpoint=…&path-style=true`. Everything except the bucket is optional. */
const s3Scheme: StoreScheme<S3Location> = {
  scheme: "s3",
  host: "bucket",
  parameters: { region: "region", endpoint: "endpoint", "path-style": "pathStyle", "allow-insecure": "allowInsecure" },
  location: S3Location,
  label: "the store in S3",
  example: "s3://bucket/prefix?region=eu-central-1, with &endpoint=https://… for a server other than Amazon's",
};

/** The location of a store in a bucket. `driver` selects the client. */
export type StoreLocation = S3Location | GcsLocation | AzureLocation;

const schemes: { [Driver in StoreLocation["driver"]]: StoreScheme<Extract<StoreLocation, { driver: Driver }>> } = {
  s3: s3Scheme,
  gcs: gcsScheme,
  azure: azureScheme,
};

/** Returns whether a text is an address of a bucket and not the path of a directory. */
export function isStoreAddress(text: string): boolean {
  return Object.values(schemes).some(({ scheme }) => text.startsWith(`${scheme}:`));
}

/**
 * Parses the address of a store: `scheme://host/prefix?parameter=…`.
 * @throws RametError `InvalidArgument`
 */
export function parseStoreAddress(text: string): StoreLocation {
  const driver = drivers.find((each) => text.startsWith(`${schemes[each].scheme}://`));
  const url = driver !== undefined && URL.canParse(text) ? new URL(text) : undefined;
  if (driver === undefined || url === undefined)
    throw invalidAddress(text, `it is not a URL that begins with ${beginnings}`);
  const { host, parameters } = schemes[driver];
  const invalid = (why: string) => invalidAddress(text, why, driver);
  if (url.username !== "") throw invalid("it contains a user, but credentials come from the environment");
  const given: Record<string, unknown> = { driver, [host]: url.host };
  if (url.pathname.length > 1) given["prefix"] = url.pathname.slice(1);
  for (const [name, value] of url.searchParams) {
    const field = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
    if (field === undefined)
      throw invalid(`it has the unknown parameter ${name}; valid are ${Object.keys(parameters).join(", ")}`);
    given[field] = flags.get(value) ?? value;
  }
  return validate(driver, given, invalid);
}

/** Formats a location for `parseStoreAddress`. @throws RametError `InvalidArgument`, which names the invalid field */
export function formatStoreAddress(location: StoreLocation): string {
  const { parameters, label } = schemes[location.driver];
  const invalid = (why: string) => new RametError("InvalidArgument", `${label}: ${why}`);
  const fields: Fields = validate(location.driver, location, invalid);
  const query = new URLSearchParams();
  for (const [name, field] of Object.entries(parameters)) {
    if (fields[field] !== undefined) query.set(name, String(fields[field]));
  }
  const text = query.toString();
  return `${nameOfStore(location)}${text === "" ? "" : `?${text}`}`;
}

/** Returns the address of a location without its parameters, for messages. */
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

function validate(
  driver: StoreLocation["driver"],
  given: unknown,
  invalid: (why: string) => RametError,
): StoreLocation {
  const result = schemes[driver].location.safeParse(given);
  if (result.success) return result.data;
  const { path, message } = result.error.issues[0] ?? { path: [], message: "is not valid" };
  throw invalid(`${path.join(".")} ${message}`);
}

function invalidAddress(text: string, why: string, driver?: StoreLocation["driver"]): RametError {
  const examples = (driver === undefined ? drivers : [driver]).map((each) => schemes[each].example);
  return new RametError("InvalidArgument", `${withoutUser(text)} is not the address of a store: ${why}`, {
    hint: `Write ${examples.join("; or ")}`,
  });
}

/** Hides the user part, which can contain credentials. */
function withoutUser(text: string): string {
  return text.replace(/\/\/[^/@]*@/, "//…@");
}
