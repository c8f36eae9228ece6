import { z } from "zod";

/** How addresses of one kind of store are written: `scheme://host/prefix?parameter=…`. */
export interface StoreScheme<Location> {
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
export const Prefix = z
  .string()
  .max(256)
  .regex(/^[-_A-Za-z0-9][-_.A-Za-z0-9]*(\/[-_A-Za-z0-9][-_.A-Za-z0-9]*)*$/, "must be names with slashes between them");

/** A server's URL, which may have a path. */
export const ServiceUrl = z
  .url({ protocol: /^https?$/, error: "must be an http or https URL" })
  .refine((text) => new URL(text).username === "", "must have no user: keys come from the environment");

/** Where a store is that is not at its cloud's usual place. */
export const Endpoint = ServiceUrl.refine((text) => ["", "/"].includes(new URL(text).pathname), "must have no path");
