import { z } from "zod";
import { Prefix, ServiceUrl, type StoreScheme } from "./store-scheme.ts";

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
export const azureScheme: StoreScheme<AzureLocation> = {
  scheme: "azblob",
  host: "container",
  parameters: { account: "account", endpoint: "endpoint" },
  location: AzureLocation,
  called: "the store in Azure",
  example: "azblob://container/prefix?account=name, and endpoint=https://… where that is not at blob.core.windows.net",
};
