import { azureScheme, type AzureLocation } from "./azure-address.ts";
import { RametError } from "../../base/errors.ts";
import { gcsScheme, type GcsLocation } from "./gcs-address.ts";
import { s3Scheme, type S3Location } from "./s3-address.ts";
import type { StoreScheme } from "./store-scheme.ts";

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
