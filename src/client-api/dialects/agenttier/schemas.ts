import * as z from "zod";
import { goDurationPattern } from "../../../base/duration.ts";

/**
 * The requests of AgentTier's clients. (Source: the wheel agenttier 0.8.1, and AgentTier at 74b1ea6.) Unknown fields are accepted,
 * because newer clients add some; known ones that are not supported are rejected by name.
 */

const Name = z
  .string()
  .trim()
  .regex(
    /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
    "must match RFC 1123 label rules: lower-case letters, digits and '-', at most 63 characters",
  );
const Duration = z.string().max(64).regex(goDurationPattern, "must be a duration such as 30m or 8h");
const Quantity = z
  .string()
  .max(32)
  .regex(/^[1-9][0-9]*([.][0-9]+)?(m|[kMGTPE]i?|Ki)?$/, "must be a quantity such as 10Gi");

const Storage = z.looseObject({
  size: Quantity.optional(),
  storageClass: z.string().max(253).optional(),
  mountPath: z.string().max(1024).startsWith("/", "must be an absolute path").optional(),
  snapshotOnStop: z.boolean().optional(),
  shared: z.boolean().optional(),
});

export const NewSandbox = z
  .looseObject({
    name: Name,
    namespace: z.string().max(63).optional(),
    templateRef: z.looseObject({
      name: z.string().min(1).max(500),
      kind: z.string().max(63).optional(),
      namespace: z.string().max(63).optional(),
    }),
    timeout: Duration.optional(),
    idleTimeout: Duration.optional(),
    storage: Storage.optional(),
  })
  .meta({ id: "NewSandbox" });
export type NewSandbox = z.infer<typeof NewSandbox>;

export const ListSandboxes = z.looseObject({
  namespace: z.string().max(63).optional(),
  status: z.string().max(63).optional(),
});

/** A name that is empty is none. */
export const Clone = z
  .looseObject({
    name: z.union([z.literal(""), Name]).optional(),
    snapshotClass: z.string().max(253).optional(),
  })
  .nullish();

export const Exec = z.looseObject({
  command: z.string().min(1).max(1_000_000),
  timeout: z.int().min(1).max(3600).default(30).describe("Seconds. The command is killed after this time."),
});

const Argv = z.array(z.string().max(131_072)).max(1000);
const ConfigureFile = z
  .looseObject({
    path: z
      .string()
      .max(4096)
      .startsWith("/", "must be absolute")
      .refine((path) => !path.split("/").includes(".."), { error: "must not contain '..'" }),
    content: z.string().optional(),
    contentBase64: z.base64().optional(),
  })
  .refine(({ content, contentBase64 }) => content === undefined || contentBase64 === undefined, {
    error: "set content or contentBase64, not both",
  });

export const Configure = z
  .looseObject({
    files: z.array(ConfigureFile).max(10_000).optional(),
    installCommand: Argv.optional(),
    entrypoint: Argv.optional(),
  })
  .refine(
    ({ files = [], installCommand = [], entrypoint = [] }) =>
      files.length + installCommand.length + entrypoint.length > 0,
    { error: "at least one of files, installCommand, or entrypoint is required" },
  )
  .meta({ id: "Configure" });
export type Configure = z.infer<typeof Configure>;

export const Invoke = z.looseObject({
  prompt: z.string().max(65_536).optional(),
  timeout: z.string().max(64).optional().describe("A duration such as 5m. The default is 30m."),
});

export const Cancel = z.looseObject({
  invokeId: z.string().regex(/^[0-9a-f]{1,64}$/, "is not an id of an invocation"),
});

export const Port = z.coerce.number().int().min(1).max(65_535);
export const NewPort = z.looseObject({
  port: z.int().min(1).max(65_535),
  protocol: z.string().max(16).default("http"),
});
