import { z } from "zod";
import { UserName } from "./step-fields.ts";
import { withRules } from "../schema/rules.ts";

/** One key of a ConfigMap or Secret of the same namespace. */
const KeyRef = z.object({ name: z.string().min(1).max(253), key: z.string().min(1).max(253) });
export type KeyRef = z.infer<typeof KeyRef>;

/** The mode of a file that does not say one. */
export const copyMode = "0644";

/** One file for the sandbox. */
export const CopyStep = withRules(
  z.object({
    path: z.string().startsWith("/", "must be an absolute path").max(4096).describe("Where the file goes."),
    content: z.string().max(262_144).optional().describe("The file as text."),
    configMapKeyRef: KeyRef.optional().describe("The file is a key of this ConfigMap."),
    secretKeyRef: KeyRef.optional().describe("The file is a key of this Secret; every clone can read it."),
    url: z
      .string()
      .regex(/^https?:\/\/[^\s]+$/, "must be an http or https URL")
      .max(2048)
      .optional()
      .describe("The file is fetched from here; it must have the sha256."),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "must be 64 hex digits")
      .optional()
      .describe("Of the file at the url."),
    mode: z
      .string()
      .regex(/^0?[0-7]{3}$/, "must be an octal mode like 0755")
      .optional()
      .describe(`Octal. Default ${copyMode}.`),
    user: UserName.optional().describe("Whose file it is. Default: the user of the steps, else the entrypoint's."),
  }),
  [
    {
      cel: "(has(self.content) ? 1 : 0) + (has(self.configMapKeyRef) ? 1 : 0) + (has(self.secretKeyRef) ? 1 : 0) + (has(self.url) ? 1 : 0) == 1",
      message: "a copy must have exactly one source: content, configMapKeyRef, secretKeyRef or url",
      holds: ({ content, configMapKeyRef, secretKeyRef, url }) =>
        [content, configMapKeyRef, secretKeyRef, url].filter((source) => source !== undefined).length === 1,
    },
    {
      cel: "has(self.url) == has(self.sha256)",
      message: "url and sha256 belong together: without its digest nobody can say whether the file has changed",
      fieldPath: ".sha256",
      holds: ({ url, sha256 }) => (url === undefined) === (sha256 === undefined),
    },
  ],
);
export type CopyStep = z.infer<typeof CopyStep>;
